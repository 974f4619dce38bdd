"""Accounts: users, permissions, limits and failed logins."""

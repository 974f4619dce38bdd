"""Accounts: users, what they may do and how much of it, and how often logins fail."""

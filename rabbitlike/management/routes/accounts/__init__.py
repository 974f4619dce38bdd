"""Routes of users, permissions, limits and logins."""

"""Webhooks: HTTP notifications of dead letters, to allowed addresses only."""

"""Webhooks: dead letters told over HTTP, to addresses that are allowed."""

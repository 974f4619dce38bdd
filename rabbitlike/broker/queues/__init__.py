"""Queues: what is ready, who gets it next, and what becomes of it."""

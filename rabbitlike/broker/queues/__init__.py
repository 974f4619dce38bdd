"""Queues: ready messages, their delivery, and what happens to them afterwards."""

"""Tracing: passes what happens to a queue's messages to the event log and the firehose."""

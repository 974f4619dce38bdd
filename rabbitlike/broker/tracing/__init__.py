"""Tracing: the event log and the firehose, and who is told of a queue's messages."""

"""Bytes: frames, methods, tables and properties of AMQP 0-9-1. Knows nothing of queues or sockets."""

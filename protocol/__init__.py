"""Encoding of AMQP 0-9-1: frames, methods, tables and properties. Does not depend on queues or sockets."""

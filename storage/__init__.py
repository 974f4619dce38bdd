"""What outlives a connection: the store behind its port. Knows nothing of AMQP."""

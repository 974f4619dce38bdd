"""Client sessions: connection, channels, and a handler per AMQP class."""

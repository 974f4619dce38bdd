"""One client's talk: connection, channels, and a handler per AMQP class."""

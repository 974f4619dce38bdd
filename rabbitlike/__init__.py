"""rabbitlike: an AMQP 0-9-1 broker that any stock client takes for RabbitMQ."""

__version__ = "0.1.0"

"""rabbitlike: an AMQP 0-9-1 broker that works like RabbitMQ for any stock client."""

__version__ = "0.1.0"

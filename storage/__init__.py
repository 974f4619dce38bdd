"""Durable storage behind a port. Does not depend on AMQP."""

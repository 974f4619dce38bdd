"""The HTTP API on the management port: RabbitMQ's paths, fields and refusals, and a few of our own.

Runs on the broker's loop and shares its one thread: a route reads or changes the broker directly, between two turns of
AMQP clients. So nothing here may block, and whatever is long is done in slices with a pause between them.
"""

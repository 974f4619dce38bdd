"""The HTTP API on the management port: RabbitMQ's paths, fields and errors, plus extensions.

The API runs on the broker's event loop and shares its one thread. A route reads or changes the broker directly, between
two turns of AMQP clients. Therefore routes must not block, and long work runs in slices with pauses between them.
"""

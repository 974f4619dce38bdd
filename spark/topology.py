"""The option `declare`: checks that exchange and queue exist, or creates them, before messages are written or read."""

from rabbitlike.spark.options import Options
from rabbitlike.spark.wire import Connection


def prepare(connection: Connection, options: Options) -> None:
    """Check or create the exchange to publish to; for the default exchange, the queue that `routingKey` names."""
    if options.declare == "none":
        return
    is_passive = options.declare == "passive"
    # Created objects deduplicate by id. RabbitMQ without the plugin ignores the argument.
    knows_ids = options.guarantee == "effectively-once" and not is_passive
    arguments = {"x-message-deduplication": True} if knows_ids else {}
    if options.exchange:
        connection.declare_exchange(options.exchange, passive=is_passive, arguments=arguments)
    elif options.routing_key:
        connection.declare_queue(options.routing_key, passive=is_passive, arguments=arguments)


def prepare_queue(connection: Connection, options: Options, queue: str) -> int:
    """Check that the queue exists, or create it; return its number of ready messages."""
    return connection.declare_queue(queue, passive=options.declare != "create").message_count

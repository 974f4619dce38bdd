"""What the option `declare` asks for before messages are written or read: look whether it is there, or make it."""

from rabbitlike.spark.options import Options
from rabbitlike.spark.wire import Connection


def prepare(connection: Connection, options: Options) -> None:
    """The exchange that messages go to; for the default exchange the queue that `routingKey` names."""
    if options.declare == "none":
        return
    is_passive = options.declare == "passive"
    # What is made for ids knows what it has seen. RabbitMQ without the plugin does not mind the argument.
    knows_ids = options.guarantee == "effectively-once" and not is_passive
    arguments = {"x-message-deduplication": True} if knows_ids else {}
    if options.exchange:
        connection.declare_exchange(options.exchange, passive=is_passive, arguments=arguments)
    elif options.routing_key:
        connection.declare_queue(options.routing_key, passive=is_passive, arguments=arguments)


def prepare_queue(connection: Connection, options: Options, queue: str) -> int:
    """The queue to read, and how many messages are ready in it. It must be there, unless it is to be made."""
    return connection.declare_queue(queue, passive=options.declare != "create").message_count

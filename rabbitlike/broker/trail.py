"""A trail: who is told of what happens to the messages of one queue, or of a vhost's publishes.

A queue without one, as nearly all are, pays a look at an empty slot. Whether there is one is decided where tracing
changes (`Vhost.retrace`), never where messages pass.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.ports import Subscriber

if TYPE_CHECKING:
    from rabbitlike.broker.firehose import Firehose
    from rabbitlike.broker.ports import ClientName


class Trail:
    """That of one queue."""

    __slots__ = ("firehose", "queue")

    def __init__(self, queue: str, firehose: "Firehose | None") -> None:
        self.queue = queue
        self.firehose = firehose

    def delivered(self, message: Message, consumer: Subscriber) -> None:
        """A consumer was given a message."""
        if self.firehose is not None:
            self.firehose.delivered(self.queue, message, consumer.client())

    def fetched(self, message: Message, client: "ClientName") -> None:
        """Somebody who asked for one was given a message."""
        if self.firehose is not None:
            self.firehose.delivered(self.queue, message, client)

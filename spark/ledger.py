"""Exactly once: commits rows and a note about them in one transaction of the broker.

The note is the single message of the queue `spark.ledger.<app>`. The driver that commits first becomes the queue's
exclusive consumer, on the connection of the transaction: a second driver has to wait until the first one's connection,
and with it its transaction, is gone. An epoch that the note names is not written again.
"""

import json
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties
from rabbitlike.spark.encode import Messages
from rabbitlike.spark.identity import Writing
from rabbitlike.spark.options import Options
from rabbitlike.spark.publisher import WHAT_TO_DO, Publisher, Refused, describe_returned, read_route, route
from rabbitlike.spark.topology import prepare
from rabbitlike.spark.wire import Connection, Delivery

PREFIX: Final = "spark.ledger."
HEARTBEAT_S: Final = 10
RETRY_AFTER_S: Final = 0.5
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
NAME_MAX: Final = 255


class LedgerError(Exception):
    """Another writer uses the same name."""


class Note(NamedTuple):
    """The last write. `query` is empty for a batch job."""

    version: int
    query: str
    rows: int


def write_once(
    options: Options, writing: Writing, query: str, parts: Sequence[Messages], redial_s: float | None = None
) -> bool:
    """Write all messages and the note, or nothing; return False if they were written before.

    `redial_s` is as for `Connection`.
    """
    with _Alone(options, writing.app, redial_s) as (connection, held):
        last = _read(held)
        if last is not None:
            if last.query != query:
                raise LedgerError(
                    f"the ledger {PREFIX}{writing.app} belongs to query '{last.query}', this is '{query}': a new "
                    "checkpoint needs a new txnAppId, or delete that queue"
                )
            if last.version >= writing.version:
                return False
        publisher = _publish(connection, options, parts)
        note = Note(writing.version, query, sum(part.count for part in parts))
        publisher.publish([_ledger_route(writing.app)], [_PROPERTIES], [json.dumps(note._asdict()).encode()])
        if held:
            connection.ack(held[-1].tag)
        _commit(connection)
    return True


def write_whole(options: Options, parts: Sequence[Messages], redial_s: float | None = None) -> None:
    """Write all messages or none, without a note: a repeated call writes twice."""
    with Connection(
        options.address, timeout_s=options.timeout_s, heartbeat_s=HEARTBEAT_S, redial_s=redial_s
    ) as connection:
        _publish(connection, options, parts)
        _commit(connection)


def _publish(connection: Connection, options: Options, parts: Sequence[Messages]) -> Publisher:
    """Publish everything in a transaction that is not committed yet."""
    prepare(connection, options)
    _check_queues(connection, parts)
    connection.select_tx()
    publisher = Publisher(connection)
    for part in parts:
        publisher.publish(part.routes, part.properties, part.bodies)
    return publisher


def _check_queues(connection: Connection, parts: Sequence[Messages]) -> None:
    """Raise Refused if messages address a missing queue by its name.

    Rabbitlike checks all routes before it commits (`_commit`), RabbitMQ checks none.
    """
    for frame in {frame for part in parts for frame in islice(part.routes, part.count)}:
        publish = read_route(frame)
        if publish.mandatory and not publish.exchange:
            try:
                connection.declare_queue(publish.routing_key or "", passive=True)
            except AmqpError as error:
                if error.code == NOT_FOUND:
                    raise Refused(f"nothing was written, for lack of a queue: {error.text}; {WHAT_TO_DO}") from error
                raise


def _commit(connection: Connection) -> None:
    try:
        connection.commit_tx()
    except AmqpError as error:
        if "unroutable" in error.text:
            raise Refused(f"nothing was written: {error.text}; {WHAT_TO_DO}") from error
        raise
    if connection.returned:
        raise Refused(f"committed, but not whole: {describe_returned(connection)}")


_PROPERTIES: Final = Properties.build(delivery_mode=2, content_type="application/json").raw


def _ledger_route(app: str) -> bytes:
    return route("", PREFIX + app, mandatory=True)


class _Alone:
    """A connection that is the ledger's exclusive consumer, with the content of the ledger."""

    def __init__(self, options: Options, app: str, redial_s: float | None) -> None:
        self._options = options
        self._redial_s = redial_s
        self._queue = PREFIX + app
        if len(self._queue.encode()) > NAME_MAX:
            raise LedgerError(f"'{app}' is too long a name: {PREFIX} and it are the name of a queue")

    def __enter__(self) -> tuple[Connection, list[Delivery]]:
        deadline = time.monotonic() + self._options.timeout_s
        while True:
            try:
                return self._try()
            except AmqpError as error:
                if error.code != ACCESS_REFUSED or "exclusive" not in error.text:
                    raise
                if time.monotonic() >= deadline:
                    raise LedgerError(
                        f"another driver holds {self._queue}: two of them run the same query ({error})"
                    ) from error
                time.sleep(RETRY_AFTER_S)

    def _try(self) -> tuple[Connection, list[Delivery]]:
        connection = Connection(
            self._options.address,
            timeout_s=self._options.timeout_s,
            heartbeat_s=HEARTBEAT_S,
            name=f"rabbitlike.spark {self._options.query_name or self._queue} commits",
            redial_s=self._redial_s,
        )
        try:
            connection.declare_queue(self._queue, arguments={"x-max-length": 1, "x-overflow": "drop-head"})
            connection.consume(self._queue, prefetch=10, exclusive=True)
            # A delivery that was due arrives before the second answer: the queue sends it before it answers the first
            # declare, and the channel forwards it before it handles the second.
            for _ in range(2):
                connection.declare_queue(self._queue, passive=True)
            held = connection.take(10, wait_s=0)
        except BaseException:
            connection.abandon()
            raise
        self._connection = connection
        return connection, held

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._connection.close()
        else:
            self._connection.abandon()


def _read(held: Sequence[Delivery]) -> Note | None:
    notes = [Note(**json.loads(delivery.body)) for delivery in held]
    return max(notes, default=None)

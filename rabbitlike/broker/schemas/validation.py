"""Validates a publish against the schemas of its exchange and queues and their maximum message sizes.

Only publishes of clients are validated, before they reach any queue, so that a publish that closes its channel is in no
queue. Other messages (dead letters, moved and delayed messages) were validated before, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.protocol.errors import precondition_failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.publishing.publication import Publication
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.protocol.properties import Properties


def is_validated(exchange: Exchange, queues: Iterable[Queue]) -> bool:
    """Whether a publish to this exchange and these queues must be validated: any has a schema or a maximum size."""
    if exchange.schema is not None:
        return True
    return any(queue.settings.schema is not None or queue.settings.max_message_size is not None for queue in queues)


def validate(publication: Publication, keys: Sequence[str], properties: Properties, vhost: Vhost) -> bool:
    """Validate a publish and remove the queues that refuse it. True: nothing was removed. Raises 406 if a schema's
    action is close, and for a body that is too large for a queue."""
    for queue in publication.queues:
        _check_size(len(publication.body), queue)
    if not _validate_by_exchange(publication, keys, properties, vhost):
        return False
    kept: list[Queue] = []
    dead_lettering_queues: list[Queue] = []
    refusal = ""
    for queue in publication.queues:
        schema = queue.settings.schema
        fault = None if schema is None else schema.fault(publication.body)
        if schema is None or fault is None:
            kept.append(queue)
            continue
        queue.violations += 1
        said = f"message does not conform to the schema of queue '{queue.name}' in vhost '{vhost.name}': {fault}"
        if schema.action == "close":
            raise precondition_failed(said)
        if schema.action == "nack":
            refusal = refusal or said
        else:
            dead_lettering_queues.append(queue)
    if len(kept) == len(publication.queues):
        return True
    publication.divert(kept, dead_lettering_queues, refusal)
    _ask(vhost)
    return False


def _check_size(octets: int, queue: Queue) -> None:
    most = queue.settings.max_message_size
    if most is not None and octets > most:
        raise precondition_failed(
            f"message size {octets} is larger than configured max size {most} of queue '{queue.name}' "
            f"in vhost '{queue.vhost.name}'"
        )


def _validate_by_exchange(publication: Publication, keys: Sequence[str], properties: Properties, vhost: Vhost) -> bool:
    """Validate by the exchange's schema. True: the queues must validate it too."""
    exchange = publication.target.exchange
    schema = exchange.schema
    fault = None if schema is None else schema.fault(publication.body)
    if schema is None or fault is None:
        return True
    exchange.violations += 1
    said = f"message does not conform to the schema of {exchange}: {fault}"
    if schema.action == "close":
        raise precondition_failed(said)
    _ask(vhost)
    if schema.action == "nack":
        publication.divert([], [], said)
        return False
    # An exchange has no dead-letter exchange: a message that does not conform goes where unroutable messages go.
    alternate = vhost.exchanges.get(exchange.alternate or "") if exchange.alternate else None
    publication.divert([] if alternate is None else vhost.route(alternate, keys, properties), [], "")
    return False


def _ask(vhost: Vhost) -> None:
    """Request a commit: the publisher may wait for one that is otherwise empty."""
    if vhost.broker.journal is not None:
        vhost.broker.journal.ask()

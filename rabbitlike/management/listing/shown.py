"""Views of objects in answers: the broker's views with sampled rates.

Callables for `lists.answer`, made once per request. An object may be gone before the list is written; its view then
shows its last state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from fastapi import Request

from rabbitlike.broker import views
from rabbitlike.management.context import context_of
from rabbitlike.management.listing.view_cache import ViewCache
from rabbitlike.management.statistics.ages import NO_AGES, ages_in
from rabbitlike.management.statistics.kinds import CHANNEL, CONNECTION, EXCHANGE, LENGTHS, LEVEL, QUEUE, VHOST, Kind
from rabbitlike.management.statistics.pairs import Pairs
from rabbitlike.management.statistics.queue_stats import stats_of
from rabbitlike.management.statistics.sums import queue_sums

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Client, ClientChannel
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.auth import Caller
    from rabbitlike.management.statistics.rates import Rates

View: TypeAlias = dict[str, object]

#: Fields of a queue that do not depend on its messages.
BASIC: Final = ("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state", "policy")
#: Exchanges of this type show their number of delayed messages even if it is 0.
DELAYED: Final = "x-delayed-message"


T = TypeVar("T")


def _with_rates(request: Request, kind: Kind, view: Callable[[T], View]) -> Callable[[T], View]:
    """The view with rates and history of its numbers."""
    annotate, ages = context_of(request).rates.annotate, ages_in(request)

    def show(each: T) -> View:
        found = view(each)
        annotate(kind, each, found, ages)
        return found

    return show


def without_stats(request: Request) -> bool:
    return request.query_params.get("disable_stats") == "true"


def queues(request: Request) -> Callable[[Queue], Mapping[str, object]]:
    """The views of queues in a list."""
    if not without_stats(request):
        full = _with_rates(request, QUEUE, views.queue)
        return full if ages_in(request) is not NO_AGES else _alike(context_of(request).rates, full)
    names = BASIC + LENGTHS if request.query_params.get("enable_queue_totals") == "true" else BASIC

    def show(queue: Queue) -> View:
        view = views.queue(queue)
        return {name: view[name] for name in names if name != "policy" or view[name] is not None}

    return show


def _alike(rates: Rates, show: Callable[[Queue], View]) -> ViewCache[Queue]:
    """The same views, faster for idle queues."""

    def sort_of(queue: Queue) -> Hashable | None:
        return None if rates.has_seen(queue) else views.queue_at_rest(queue)

    def own(queue: Queue) -> View:
        view = views.queue_own(queue)
        if (stats := view.get("message_stats")) is not None:
            rates.annotate_still(cast("View", stats))
        return view

    return ViewCache(show, sort_of, own)


async def queue_in_full(request: Request, queue: Queue) -> Mapping[str, object]:
    """The view of a single queue."""
    view = queues(request)(queue)
    if without_stats(request):
        return view
    return {
        **view,
        **views.queue_details(queue),
        **await Pairs(request).of_queue(queue),
        "priorities": priorities(request, queue),
        "x_stats": stats_of(context_of(request), queue),
    }


def priorities(request: Request, queue: Queue) -> list[View]:
    """The levels of a queue with their rates. The lowest level's rates are the queue's minus those of the others."""
    rates = context_of(request).rates
    whole = rates.reading(QUEUE, (queue,))
    enqueued, dequeued = whole.rate("publish"), whole.rate("deliver_get")
    found = views.priorities(queue)
    for view, (number, level) in zip(found, queue.ready.numbered(), strict=True):
        if number:
            reading = rates.reading(LEVEL, (level,))
            view["enqueue_rate"], view["dequeue_rate"] = reading.rate("enqueued"), reading.rate("dequeued")
            enqueued -= reading.rate("enqueued")
            dequeued -= reading.rate("dequeued")
        else:
            view["enqueue_rate"], view["dequeue_rate"] = max(0.0, enqueued), max(0.0, dequeued)
    return found


def exchanges(request: Request) -> Callable[[Exchange], View]:
    vhosts = context_of(request).broker.vhosts

    def show(exchange: Exchange) -> View:
        view = views.exchange(exchange)
        vhost = vhosts.get(exchange.vhost)
        waiting = 0 if vhost is None else vhost.delays.count_of(exchange.name)
        # parity: RabbitMQ's plugin shows it for exchanges of its type.
        if waiting or exchange.kind == DELAYED:
            view["messages_delayed"] = waiting
        return view

    return _with_rates(request, EXCHANGE, show)


def connections(request: Request) -> Callable[[Client], View]:
    return _with_rates(request, CONNECTION, lambda client: client.view())


def channels(request: Request) -> Callable[[ClientChannel], View]:
    return _with_rates(request, CHANNEL, lambda channel: channel.view())


async def vhosts(request: Request, wanted: list[Vhost]) -> Callable[[Vhost], View]:
    """The views of these vhosts, with current sums over their queues."""
    sums = {vhost: await queue_sums([vhost]) for vhost in wanted}
    return _with_rates(request, VHOST, lambda vhost: views.vhost(vhost, sums[vhost]))


def vhosts_of(caller: Caller) -> list[Vhost]:
    """The vhosts whose queues, exchanges and bindings the caller may list."""
    return [vhost for vhost in caller.context.broker.vhosts.values() if caller.may_list(vhost.name)]


def queues_in(vhosts: list[Vhost]) -> Iterator[Queue]:
    for vhost in vhosts:
        yield from list(vhost.queues.values())


def exchanges_in(vhosts: list[Vhost]) -> Iterator[Exchange]:
    for vhost in vhosts:
        yield from list(vhost.exchanges.values())


def channel_in_full(request: Request, channel: ClientChannel) -> View:
    """The view of a single channel."""
    consumers = {"consumer_details": channel.consumer_views()}
    return {**channels(request)(channel), **consumers, **Pairs(request).of_channel(channel)}

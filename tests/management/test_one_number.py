"""Whatever happens to messages, every surface shows the same numbers: the HTTP API, Prometheus, AMQP and the commands.

A random walk over AMQP; after every few steps all surfaces are read and compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final
from urllib.parse import quote

import pytest
from pamqp import base, commands
from prometheus_client.parser import text_string_to_metric_families

from rabbitlike.broker.accounts.permissions import EVERYTHING
from rabbitlike.commands.listing import RESOURCES
from rabbitlike.commands.output import value_at
from rabbitlike.commands.top import QUEUES
from tests.support.api import Api, make_api
from tests.support.crash_pair import SimulatedDisk
from tests.support.pair import Channel, F, Pair, Typed

STEPS: Final = 120
STEPS_BETWEEN: Final = 8

Name = tuple[str, str]
Row = dict[str, Any]

#: Queues of every sort that makes a number of its own, by vhost and name.
DEAD_LETTERED: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain"}
SORTS: Final[dict[Name, dict[str, object]]] = {
    ("/", "plain"): {},
    ("/", "retried"): {"x-retry-initial": 2000},
    ("/", "retried twice"): {"x-retry-initial": 500, "x-delivery-limit": 2, **DEAD_LETTERED},
    ("/", "short-lived"): {"x-message-ttl": 3000, **DEAD_LETTERED},
    ("/", "short"): {"x-max-length": 5, **DEAD_LETTERED},
    ("/", "urgent"): {"x-max-priority": 3},
    ("/", "holds letters"): {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "nowhere",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    },
    ("other", "plain"): {},
    ("other", "retried"): {"x-delayed-retry-type": "all", "x-delayed-retry-min": 1000},
}
#: A metric of each queue, without its prefix, and the field that says the same over HTTP.
METRICS: Final = {
    "queue_messages": "messages",
    "queue_messages_ready": "messages_ready",
    "queue_messages_unacked": "messages_unacknowledged",
    "queue_messages_ram": "messages_ram",
    "queue_messages_ready_ram": "messages_ready_ram",
    "queue_messages_unacked_ram": "messages_unacknowledged_ram",
    "queue_messages_persistent": "messages_persistent",
    "queue_messages_paged_out": "messages_paged_out",
    "queue_messages_bytes": "message_bytes",
    "queue_messages_ready_bytes": "message_bytes_ready",
    "queue_messages_unacked_bytes": "message_bytes_unacknowledged",
    "queue_messages_ram_bytes": "message_bytes_ram",
    "queue_messages_persistent_bytes": "message_bytes_persistent",
    "queue_messages_paged_out_bytes": "message_bytes_paged_out",
    "queue_process_memory_bytes": "memory",
    "queue_consumers": "consumers",
    "queue_consumer_capacity": "consumer_capacity",
    "queue_head_message_timestamp": "head_message_timestamp",
}
OURS: Final = {
    "queue_depth": "messages_ready",
    "queue_delayed": "messages_delayed",
    "queue_active_consumers": "consumers",
}
STATS: Final = {
    "depth": "messages_ready",
    "total_messages": "messages",
    "inflight_messages": "messages_unacknowledged",
    "delayed_messages": "messages_delayed",
    "consumers": "consumers",
}
TOTALS: Final = ("messages", "messages_ready", "messages_unacknowledged")


class Walk:
    """Clients of one broker that do one random thing after another."""

    def __init__(self, pair: Pair, seed: int, commit: Callable[[], None]) -> None:
        self.pair = pair
        self.dice = Random(seed)
        self.commit = commit
        pair.broker.set_vhost("other")
        pair.broker.set_permission("guest", "other", EVERYTHING)
        self.channels = [pair.connect(vhost=vhost).channel() for vhost in ("/", "/", "other")]
        self.careful = pair.connect().channel()
        self.call(self.careful, commands.Tx.Select(), commands.Tx.SelectOk)
        for name in SORTS:
            self.declare(name)

    def call(self, ch: Channel, method: base.Frame, answer: type[F]) -> F:
        """Ask and hear the answer, which may wait for a commit. Deliveries that come before it are left aside."""
        ch.send(method)
        self.commit()
        while not isinstance(item := ch.client.take(ch.number), type(None)):
            if isinstance(item.frame, answer):
                return item.frame
        raise AssertionError(f"no {answer.__name__}")

    def channel_to(self, name: Name) -> Channel:
        return self.dice.choice([ch for ch in self.channels if self.vhost_of(ch) == name[0]])

    @staticmethod
    def vhost_of(ch: Channel) -> str:
        vhost = ch.client.connection.vhost
        assert vhost is not None
        return vhost.name

    def step(self) -> None:
        name = self.dice.choice(list(SORTS))
        ch = self.channel_to(name)
        self.dice.choice(
            [self.publish] * 5
            + [self.consume, self.consume, self.cancel, self.get, self.get]
            + [self.settle] * 5
            + [self.wait, self.purge, self.delete, self.publish_carefully, self.hang_up]
        )(ch, name)
        self.commit()

    def declare(self, name: Name) -> commands.Queue.DeclareOk:
        method = commands.Queue.Declare(queue=name[1], durable=True, arguments=dict(SORTS[name]))
        return self.call(self.channel_to(name), method, commands.Queue.DeclareOk)

    def publish(self, ch: Channel, name: Name) -> None:
        for _ in range(self.dice.randrange(1, 8)):
            fields: dict[str, object] = {"delivery_mode": self.dice.choice((1, 2))}
            if self.dice.random() < 0.2:
                fields["expiration"] = str(self.dice.choice((0, 500, 60_000)))
            if self.dice.random() < 0.2:
                fields["headers"] = {"x-delay": Typed("I", 1500)}
            if self.dice.random() < 0.3:
                fields |= {"timestamp": 1_700_000_000, "priority": self.dice.randrange(5)}
            ch.publish(b"x" * self.dice.randrange(3000), key=name[1], **fields)  # type: ignore[arg-type]

    def publish_carefully(self, ch: Channel, name: Name) -> None:
        self.careful.publish(b"in a transaction", key="plain", delivery_mode=2)
        if self.dice.random() < 0.5:
            self.call(self.careful, commands.Tx.Commit(), commands.Tx.CommitOk)
        elif self.dice.random() < 0.5:
            self.call(self.careful, commands.Tx.Rollback(), commands.Tx.RollbackOk)

    def consume(self, ch: Channel, name: Name) -> None:
        ch.send(commands.Basic.Qos(prefetch_count=self.dice.randrange(1, 6)))
        no_ack = self.dice.random() < 0.1
        ch.send(commands.Basic.Consume(queue=name[1], no_ack=no_ack))

    def cancel(self, ch: Channel, name: Name) -> None:
        consumers = list(ch.client.connection.channels[ch.number].consumers)  # type: ignore[attr-defined]
        if consumers:
            ch.send(commands.Basic.Cancel(consumer_tag=self.dice.choice(consumers)))

    def get(self, ch: Channel, name: Name) -> None:
        ch.send(commands.Basic.Get(queue=name[1], no_ack=self.dice.random() < 0.3))

    def settle(self, ch: Channel, name: Name) -> None:
        held = list(ch.client.connection.channels[ch.number].unacked.deliveries())  # type: ignore[attr-defined]
        for delivery in self.dice.sample(held, min(len(held), self.dice.randrange(1, 6))):
            self.dice.choice(
                (
                    lambda tag: ch.ack(tag),
                    lambda tag: ch.nack(tag, requeue=True),
                    lambda tag: ch.reject(tag, requeue=True),
                    lambda tag: ch.reject(tag, requeue=False),
                )
            )(delivery.tag)

    def wait(self, ch: Channel, name: Name) -> None:
        self.pair.advance(self.dice.choice((50, 200, 4000)))

    def purge(self, ch: Channel, name: Name) -> None:
        if self.dice.random() < 0.5:
            ch.send(commands.Queue.Purge(queue=name[1]))

    def delete(self, ch: Channel, name: Name) -> None:
        if self.dice.random() < 0.5:
            self.call(ch, commands.Queue.Delete(queue=name[1]), commands.Queue.DeleteOk)
            self.declare(name)

    def hang_up(self, ch: Channel, name: Name) -> None:
        vhost = self.vhost_of(ch)
        ch.client.drop()
        self.channels[self.channels.index(ch)] = self.pair.connect(vhost=vhost).channel()

    def declared(self) -> dict[Name, commands.Queue.DeclareOk]:
        """What AMQP says of each queue."""
        return {name: self.passively(name) for name in SORTS}

    def passively(self, name: Name) -> commands.Queue.DeclareOk:
        method = commands.Queue.Declare(queue=name[1], passive=True)
        return self.call(self.channel_to(name), method, commands.Queue.DeclareOk)


# ----------------------------------------------------------------------------------------- what is shown of it


def by_name(rows: list[Row]) -> dict[Name, Row]:
    return {(row["vhost"], row["name"]): row for row in rows}


def numbers(row: Row) -> Row:
    """The fields that this is about. A delayed message shows a field that is missing otherwise."""
    names = {"memory", "consumers", "consumer_capacity", "consumer_utilisation"}
    found = {name: row[name] for name in row if name.startswith(("messages", "message_bytes")) or name in names}
    return {"messages_delayed": 0, **{name: value for name, value in found.items() if not name.endswith("_details")}}


async def told(api: Api, path: str) -> Any:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def metrics(api: Api, path: str) -> dict[str, dict[Name, float]]:
    """The values of each metric by queue; those that no queue is named with under no name."""
    found: dict[str, dict[Name, float]] = {}
    for family in text_string_to_metric_families((await api.get(path)).text):
        for sample in family.samples:
            name = (sample.labels.get("vhost", ""), sample.labels.get("queue", ""))
            found.setdefault(sample.name, {})[name] = sample.value
    return found


async def compare(api: Api, declared: dict[Name, commands.Queue.DeclareOk]) -> Counter[str]:
    """All surfaces; what the queues hold together."""
    rows = by_name(await told(api, "/api/queues"))
    assert rows.keys() == declared.keys()
    sums: dict[str, Counter[str]] = {vhost: Counter() for vhost, _ in rows}
    for (vhost, name), row in rows.items():
        shown = numbers(row)
        sums[vhost].update({key: value for key, value in shown.items() if isinstance(value, int)})
        full = await told(api, f"/api/queues/{quote(vhost, '')}/{quote(name)}")
        assert numbers(full) == shown
        in_v1 = await told(api, f"/api/v1/queues/{quote(name)}/stats?vhost={quote(vhost, '')}")
        held = full["x_stats"]["held_dead_letters"]
        for stats in (full["x_stats"], in_v1):
            assert {key: stats[key] for key in STATS} == {key: shown[field] for key, field in STATS.items()}
            assert stats["held_dead_letters"] == shown.get("messages_dlx", 0) == held
        assert shown["messages"] == held + sum(
            shown[part] for part in ("messages_ready", "messages_unacknowledged", "messages_delayed")
        )
        ok = declared[vhost, name]
        assert (ok.message_count, ok.consumer_count) == (shown["messages_ready"], shown["consumers"])
    await compare_lists(api, rows)
    together = sum(sums.values(), Counter())
    await compare_totals(api, sums, together)
    await compare_metrics(api, rows, together)
    return together


async def compare_lists(api: Api, rows: dict[Name, Row]) -> None:
    """The same queues in other lists, and what the commands make of them."""
    paged = by_name((await told(api, "/api/queues?page=1&page_size=100"))["items"])
    names = ",".join(["vhost", "name", *METRICS.values(), "messages_delayed"])
    chosen = by_name(await told(api, f"/api/queues?columns={names}"))
    totals = by_name(await told(api, "/api/queues?disable_stats=true&enable_queue_totals=true"))
    (listed,) = [resource for resource in RESOURCES if resource.name == "queues"]
    for name, row in rows.items():
        assert numbers(paged[name]) == numbers(row)
        assert {key: chosen[name][key] for key in METRICS.values()} == {key: row[key] for key in METRICS.values()}
        assert {key: totals[name][key] for key in TOTALS} == {key: row[key] for key in TOTALS}
        for shown in (listed.shown, QUEUES):
            said = {column.title: value_at(row, column.path) for column in shown}
            assert said["ready"] == row["messages_ready"]
            assert said["unacked"] == row["messages_unacknowledged"]
            assert said["messages"] == row["messages"]
    held = sum(channel["messages_unacknowledged"] for channel in await told(api, "/api/channels"))
    assert held - of_deleted_queues(api.pair) == sum(row["messages_unacknowledged"] for row in rows.values())
    consumers = Counter((each["queue"]["vhost"], each["queue"]["name"]) for each in await told(api, "/api/consumers"))
    assert consumers == Counter({name: row["consumers"] for name, row in rows.items() if row["consumers"]})


def of_deleted_queues(pair: Pair) -> int:
    """Deliveries that clients still hold of queues that are gone."""
    channels = [channel for client in pair.broker.connections for channel in client.open_channels()]
    return sum(each.queue.deleted for channel in channels for each in channel.unacked.deliveries())  # type: ignore[attr-defined]


async def compare_totals(api: Api, sums: dict[str, Counter[str]], together: Counter[str]) -> None:
    for vhost in await told(api, "/api/vhosts"):
        alone = await told(api, f"/api/vhosts/{quote(vhost['name'], '')}")
        for name in TOTALS:
            assert vhost[name] == alone[name] == sums[vhost["name"]][name]
    overview = await told(api, "/api/overview")
    totals = overview["queue_totals"]
    for name in (*TOTALS, "messages_delayed"):
        assert totals[name] == together[name]
    assert overview["object_totals"]["consumers"] == together["consumers"]
    vhosts = await told(api, "/api/vhosts")
    assert overview["messages_delayed"] == sum(vhost.get("messages_delayed", 0) for vhost in vhosts)


async def compare_metrics(api: Api, rows: dict[Name, Row], together: Counter[str]) -> None:
    families = "family=queue_coarse_metrics&family=queue_metrics"
    each = await metrics(api, "/metrics/per-object")
    detailed = await metrics(api, f"/metrics/detailed?{families}")
    whole = await metrics(api, "/metrics")
    for metric, field in METRICS.items():
        shown = {name: row[field] for name, row in rows.items() if row[field] is not None}
        assert each.get(f"rabbitmq_{metric}", {}) == shown, metric
        assert detailed.get(f"rabbitmq_detailed_{metric}", {}) == shown, metric
        if field in together:
            assert whole[f"rabbitmq_{metric}"]["", ""] == together[field], metric
    for metric, field in OURS.items():
        assert each[f"rabbitlike_{metric}"] == {name: row.get(field, 0) for name, row in rows.items()}
        assert whole[f"rabbitlike_{metric}"]["", ""] == together[field]
    assert whole["rabbitlike_queue_held_letters"]["", ""] == together["messages_dlx"]
    overview = await told(api, "/api/overview")
    assert whole["rabbitlike_messages_delayed"]["", ""] == overview["messages_delayed"]
    for name in ("queues", "connections", "channels", "consumers"):
        assert whole[f"rabbitmq_{name}"]["", ""] == overview["object_totals"][name]
    counted = overview["message_stats"]
    assert whole["rabbitmq_global_messages_received_total"]["", ""] == counted["publish"]
    assert whole["rabbitmq_global_messages_delivered_total"]["", ""] == counted["deliver_get"]
    assert whole["rabbitmq_global_messages_acknowledged_total"]["", ""] == counted["ack"]


@pytest.mark.parametrize("seed", range(6))
def test_all_surfaces_agree(seed: int) -> None:
    walk = Walk(Pair(), seed, lambda: None)
    api = make_api(walk.pair)
    seen: Counter[str] = Counter()
    for _ in range(STEPS // STEPS_BETWEEN):
        for _ in range(STEPS_BETWEEN):
            walk.step()
        seen |= asyncio.run(compare(api, walk.declared()))
    for field in ("messages_ready", "messages_unacknowledged", "messages_delayed", "consumers"):
        assert seen[field] > 0, f"nothing was {field}"


@pytest.mark.parametrize("seed", range(3))
def test_all_surfaces_agree_over_a_disk(seed: int) -> None:
    """Where messages are paged out, and after a restart."""
    disk = SimulatedDisk()
    pair = disk.boot(queue_window=10_000)
    walk = Walk(pair, seed, pair.commit_all)
    seen: Counter[str] = Counter()
    for _ in range(STEPS // STEPS_BETWEEN):
        for _ in range(STEPS_BETWEEN):
            walk.step()
        seen |= disk.run(compare(make_api(pair), walk.declared()))
    assert seen["messages_paged_out"] > 0
    pair = disk.boot(now_ms=pair.clock.now_ms(), crash=True, queue_window=10_000)
    walk = Walk(pair, seed, pair.commit_all)
    disk.run(compare(make_api(pair), walk.declared()))
    disk.close()

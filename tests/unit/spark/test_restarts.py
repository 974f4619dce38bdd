"""Readers and writers whose broker restarts or is not there; another query's spool; and the lag that readers report."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.spark import dial, reader
from rabbitlike.spark.address import Address
from rabbitlike.spark.dial import Lost
from rabbitlike.spark.identity import Task
from rabbitlike.spark.options import OptionError, Options, parse
from rabbitlike.spark.reader import AmqpBatchReader, QueueReader, RefusedReader
from rabbitlike.spark.schema import plan_write
from rabbitlike.spark.source import AmqpDataSource
from rabbitlike.spark.spool import SpoolError
from rabbitlike.spark.wire import Connection
from rabbitlike.spark.writer import Sink
from tests.support.broker_process import running
from tests.unit.spark.reading import ALL, NUMBERS, depth, die, epochs, fill, rows
from tests.unit.spark.test_columns import struct

TWENTY = ReadMaxRows(20)


@pytest.fixture
def options(address: Address, queue: str, tmp_path: Path) -> Options:
    return Options(address, queue=queue, spool_location=str(tmp_path / "spool"), confirm_timeout_ms=20_000)


@contextmanager
def restarts(tmp_path: Path) -> Iterator[tuple[Address, Callable[[int], None]]]:
    """A broker with NUMBERS in its queue `q`, and what makes it start again after a signal."""
    flags = ("--no-memory", "--data-dir", str(tmp_path / "data"))
    with running(*flags) as first:
        address = Address(port=first.port)
        with Connection(address) as client:
            client.declare_queue("q")
            fill(client, "q", *NUMBERS)
        with ExitStack() as stack:

            def restart(number: int) -> None:
                first.process.send_signal(number)
                first.process.wait()
                stack.enter_context(running(*flags, "--port", str(address.port)))

            yield address, restart


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_tags_of_a_lost_connection_are_not_acknowledged_on_the_next(
    number: int, tmp_path: Path, made: Callable[..., QueueReader]
) -> None:
    """ackMode=commit: Spark reports epochs done that were delivered before the restart. They come again: to acknowledge
    their old tags would close the channel (406), or lose messages that have these tags now."""
    with restarts(tmp_path) as (address, restart):
        options = Options(address, queue="q", ack_mode="commit", max_rows_per_trigger=20, confirm_timeout_ms=60_000)
        stream = made(options)
        first = stream.latestOffset(stream.initialOffset(), TWENTY)
        second = stream.latestOffset(first, TWENTY)
        restart(number)
        stream.commit(first)
        third = stream.latestOffset(second, TWENTY)
        stream.commit(second)
        assert rows(stream, second, third) == NUMBERS[:20]
        die(stream)
        with Connection(address) as client:
            assert depth(client, "q") == len(NUMBERS), "nothing of the new connection's was acknowledged"
        rest, _ = epochs(made(options), third, TWENTY)
        assert rest == NUMBERS


def time_with(sleep: Callable[[float], None]) -> SimpleNamespace:
    """For one module: other threads of the process, Spark's among them, sleep as usual."""
    return SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails who waits for a broker."""

    def fail(_: float) -> None:
        raise AssertionError("waits for a broker that never was there")

    for module in (dial, reader):
        monkeypatch.setattr(module, "time", time_with(fail))


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("mode", ["spool", "commit", "auto"])
def test_a_broker_that_never_was_there_is_not_waited_for(
    mode: str, options: Options, made: Callable[..., QueueReader]
) -> None:
    nowhere = replace(options, address=Address(port=1), ack_mode=mode)
    with pytest.raises(Lost, match=r"no broker at amqp://guest@127\.0\.0\.1:1: .*refused"):
        made(nowhere).latestOffset(made(nowhere).initialOffset(), ALL)
    with pytest.raises(Lost, match="no broker"):
        made(nowhere).prepareForTriggerAvailableNow()
    with pytest.raises(Lost, match="no broker"):
        AmqpBatchReader(replace(nowhere, browse=True)).partitions()


# Whose spool it is


def test_a_new_checkpoint_does_not_go_with_a_used_spool(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    """The last rows are still in it: they would come a second time."""
    fill(client, queue, *NUMBERS)
    old = made(options)
    _, end = epochs(old, old.initialOffset(), TWENTY)
    die(old)
    new = made(options)
    with pytest.raises(SpoolError, match=r"the checkpoint is new, and the spool .* give this query a spoolLocation"):
        new.latestOffset(new.initialOffset(), ALL)
    die(new)
    fill(client, queue, b"more")
    assert epochs(made(options), end)[0] == [b"more"], "the old query goes on"


def test_the_first_epoch_can_be_repeated(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    """Spark asks for the initial offset then, with a checkpoint that is not new."""
    fill(client, queue, *NUMBERS)
    old = made(options)
    end = old.latestOffset(old.initialOffset(), TWENTY)
    assert rows(old, old.initialOffset(), end) == NUMBERS[:20]
    die(old)
    again = made(options)
    assert rows(again, again.initialOffset(), end) == NUMBERS[:20]
    assert epochs(again, end)[0] == NUMBERS[20:]


def test_spooled_rows_must_have_the_columns_that_are_asked_for(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    old = made(options)
    start = old.initialOffset()
    end = old.latestOffset(start, TWENTY)
    die(old)
    with pytest.raises(SpoolError, match="includeHeaders"):
        made(replace(options, include_headers="true")).partitions(start, end)


# The lag


@pytest.mark.parametrize("mode", ["spool", "commit", "auto"])
def test_the_lag_is_what_no_epoch_has_yet(
    mode: str, options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    stream = made(replace(options, ack_mode=mode, prefetch_count=40))
    assert stream.reportLatestOffset() is None, "not connected yet"
    end = stream.latestOffset(stream.initialOffset(), TWENTY)
    assert stream.reportLatestOffset() == {
        **end, "position": 50, "lag": 30, "source": f"queue {queue} of {options.address}",
    }  # fmt: skip
    stream.commit(end)
    stream.latestOffset(end, ALL)
    report = stream.reportLatestOffset()
    assert report is not None
    assert (report["lag"], report["position"]) == (0, 50)


def test_rows_in_the_spool_that_no_epoch_has_are_behind_too(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    first = made(options)
    start = first.initialOffset()
    first.latestOffset(first.latestOffset(start, TWENTY), TWENTY)
    die(first)
    stream = made(options)
    stream._connection()
    stream.latestOffset(start, TWENTY)
    report = stream.reportLatestOffset()
    assert report is not None
    assert (report["lag"], report["position"]) == (30, 50)


def test_a_report_that_fails_is_left_to_the_next_epoch(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    stream = made(replace(options, ack_mode="auto"))
    start = stream.initialOffset()
    stream.latestOffset(start, ALL)
    client.delete_queue(queue)
    assert stream.reportLatestOffset() is None
    with pytest.raises(AmqpError, match="404 NOT_FOUND"):
        stream.latestOffset(start, ALL)


# What cannot be read


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "spoolLocation"),
        ({"ackMode": "commit", "queue": ""}, "option queue is missing"),
        ({"ackMode": "commit", "queueType": "stream"}, "stream queues are not there yet"),
    ],
)
def test_spark_gets_a_reader_that_says_what_is_wrong(given: dict[str, str], why: str) -> None:
    """Spark stops what it was not given when making it fails, and users hear of nothing but that."""
    source = AmqpDataSource({"queue": "q", **given})
    columns = [column.replace("`", "") for column in source.schema().split(", ")]
    made = source.streamReader(struct(", ".join(columns)))
    assert isinstance(made, RefusedReader)
    for ask in (made.initialOffset, made.getDefaultReadLimit, lambda: made.latestOffset({}, ALL)):
        with pytest.raises(OptionError, match=why):
            ask()
    made.stop()


# What writes


@pytest.mark.parametrize(
    ("is_stream", "is_away", "epoch", "waits"),
    [
        (True, False, 0, False),
        (True, False, 1, True),
        (False, False, None, True),
        (False, True, None, False),
        (False, True, 0, False),
        (False, True, 1, True),
    ],
    ids=["first epoch", "later epoch", "batch", "batch without", "first foreachBatch", "later foreachBatch"],
)
def test_tasks_wait_for_a_broker_that_was_there(
    is_stream: bool, is_away: bool, epoch: int | None, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks for it when a batch begins; tasks know whether a query had an epoch before."""
    waited: list[float] = []
    monkeypatch.setattr(dial, "time", time_with(waited.append))
    parsed = parse({"uri": "amqp://127.0.0.1:1", "confirmTimeoutMs": "500"})
    sink = Sink(parsed, plan_write(struct("body binary"), parsed), is_stream=is_stream)
    sink.is_away = is_away
    with pytest.raises(Lost, match="no broker"):
        sink._connect(Task(partition=0, attempt=0, query=None if epoch is None else "query", epoch=epoch))
    assert bool(waited) == waits


def test_the_driver_looks_for_the_broker_of_a_batch(address: Address) -> None:
    for port, is_away in ((address.port, False), (1, True)):
        writer = AmqpDataSource({"port": str(port)}).writer(struct("body binary"), overwrite=False)
        assert writer.sink.is_away == is_away

"""Queues read as streams, asked as Spark asks: what comes again, and what does not, whatever dies in between."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.spark.address import Address
from rabbitlike.spark.dial import Lost
from rabbitlike.spark.options import OptionError, Options
from rabbitlike.spark.reader import AmqpBatchReader, Offset, QueueReader, UnspooledReader, stream_reader
from rabbitlike.spark.spool import Spool, SpoolError
from rabbitlike.spark.wire import Connection
from tests.support.broker_process import running
from tests.unit.spark.reading import ALL, NUMBERS, depth, die, epochs, fill, rows


@pytest.fixture
def options(address: Address, queue: str, tmp_path: Path) -> Options:
    return Options(
        address,
        queue=queue,
        spool_location=str(tmp_path / "spool"),
        poll_timeout_ms=500,
        confirm_timeout_ms=20_000,
        num_partitions=2,
    )


@pytest.mark.parametrize("mode", ["spool", "commit", "auto"])
def test_a_queue_is_read_in_order_in_epochs(
    mode: str, options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(replace(options, ack_mode=mode, max_rows_per_trigger=20))
    found, _ = epochs(reader, reader.initialOffset(), ReadMaxRows(20))
    assert found == NUMBERS
    assert depth(client, queue) == 0


def test_an_epoch_is_within_its_limits(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *[b"x" * 100] * 10)
    reader = made(replace(options, max_bytes_per_trigger=450))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(rows(reader, start, end)) == 4
    assert len(rows(reader, end, reader.latestOffset(end, ReadMaxRows(2)))) == 2


def test_available_now_does_not_wait_for_what_comes_later(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, b"1", b"2")
    reader = made(options)
    reader.prepareForTriggerAvailableNow()
    fill(client, queue, b"3")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == [b"1", b"2"]
    assert reader.latestOffset(end, ALL) == end


# The spool


def test_an_epoch_can_be_read_again(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(30))
    first = rows(reader, start, end)
    die(reader)
    fill(client, queue, b"more")
    again = made(options)
    assert rows(again, start, end) == first == NUMBERS[:30]
    assert epochs(again, end)[0] == [*NUMBERS[30:], b"more"]


def test_an_offset_that_spark_never_heard_of_is_not_lost(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    """Spooled and acknowledged, then the driver dies before Spark has written the offset down."""
    fill(client, queue, *NUMBERS)
    reader = made(options)
    start = reader.initialOffset()
    reader.latestOffset(start, ReadMaxRows(30))
    die(reader)
    assert epochs(made(options), start)[0] == NUMBERS


@pytest.mark.parametrize("ids", [True, False], ids=["with message ids", "without"])
@pytest.mark.parametrize("is_sabotaged", [False, True], ids=["", "sabotaged"])
def test_a_crash_between_disk_and_acknowledgement(
    ids: bool,
    is_sabotaged: bool,
    options: Options,
    client: Connection,
    queue: str,
    made: Callable[..., QueueReader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is on the disk comes again from the queue, and is dropped there: once each, equal ones as often as they are.
    Sabotaged, nobody remembers what was in doubt: the duplicates show that they were there to be dropped."""
    bodies = [*NUMBERS, *NUMBERS[:10]]
    fill(client, queue, *bodies, ids=ids)
    reader = made(options)
    start = reader.initialOffset()
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "ack", _die)
        with pytest.raises(KeyboardInterrupt):
            reader.latestOffset(start, ReadMaxRows(55))
    die(reader)
    if is_sabotaged:
        monkeypatch.setattr(Spool, "_ids", lambda *_: [])
    found, _ = epochs(made(options), start)
    expected = Counter(bodies)
    if is_sabotaged:
        expected += Counter(bodies[:55])
    assert Counter(found) == expected
    assert depth(client, queue) == 0


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_redelivered_message_that_was_never_spooled_is_not_dropped(
    options: Options, address: Address, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    """Another consumer had them first. Equal to ones that were spooled, and others all the same."""
    fill(client, queue, b"same", b"same")
    reader = made(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    die(reader)
    fill(client, queue, b"same", b"same")
    with Connection(address) as other:
        assert len(other.get(queue, 10)) == 2
    assert epochs(made(options), end)[0] == [b"same", b"same"]


def test_half_a_segment_is_none(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(options)
    start = reader.initialOffset()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", _die)
        with pytest.raises(KeyboardInterrupt):
            reader.latestOffset(start, ALL)
    die(reader)
    assert epochs(made(options), start)[0] == NUMBERS


def test_what_spark_is_done_with_is_deleted(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader], tmp_path: Path
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(options)
    _, end = epochs(reader, reader.initialOffset(), ReadMaxRows(10))
    reader.commit(end)
    assert len(list(tmp_path.glob("spool/*/*.arrow"))) == 1, "the last one tells where to go on"
    die(reader)
    fill(client, queue, b"more")
    assert epochs(made(options), end)[0] == [b"more"]


def test_a_checkpoint_and_a_spool_that_are_not_of_one_query(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, b"1")
    with pytest.raises(SpoolError, match="failOnDataLoss"):
        made(options).latestOffset({"position": 500}, ALL)


def test_one_query_has_a_spool(options: Options, made: Callable[..., QueueReader]) -> None:
    start: Offset = {"position": 0}
    made(options).latestOffset(start, ALL)
    with pytest.raises(SpoolError, match="another query"):
        made(replace(options, confirm_timeout_ms=300)).latestOffset(start, ALL)


def test_a_broker_that_restarts_costs_nothing(tmp_path: Path, made: Callable[..., QueueReader]) -> None:
    """Killed while the acknowledgement is under way: what it forgot of it comes again, and is dropped."""
    flags = ("--no-memory", "--data-dir", str(tmp_path / "data"))
    with running(*flags) as broker:
        port = broker.port
        address = Address(port=port)
        options = Options(address, queue="q", spool_location=str(tmp_path / "spool"), confirm_timeout_ms=60_000)
        with Connection(address) as client:
            client.declare_queue("q")
            fill(client, "q", *NUMBERS, ids=True)
        reader = made(options)
        start = reader.initialOffset()
        connection = reader._connection()
        broker_ack = connection.ack

        def kill_first(tag: int) -> None:
            broker.process.kill()
            broker.process.wait()
            broker_ack(tag)

        connection.ack = kill_first  # type: ignore[method-assign]
        end = reader.latestOffset(start, ReadMaxRows(30))
    assert rows(reader, start, end) == NUMBERS[:30]
    with running(*flags, "--port", str(port)):
        rest, _ = epochs(reader, end)
        assert rest == NUMBERS[30:]
        reader.stop()


# Without a spool


def test_uncommitted_messages_come_again(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    """ackMode=commit: the last epoch of a run is never reported done, so it is delivered again; nothing is lost. Asked
    for a dead run's epoch, it has nothing: those messages come in an epoch of their own."""
    fill(client, queue, *NUMBERS)
    options = replace(options, ack_mode="commit", max_rows_per_trigger=20)
    first = made(options)
    assert isinstance(first, UnspooledReader)
    start = first.initialOffset()
    found, end = epochs(first, start, ReadMaxRows(20))
    assert found == NUMBERS
    first.stop()
    second = made(options)
    assert second.partitions(start, end) == []
    again, _ = epochs(second, end)
    assert again == NUMBERS[40:], "an epoch is reported done while the next is built, and there was none"


def test_a_lost_connection_is_made_again(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(replace(options, ack_mode="commit"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "take", _lose)
        assert reader.latestOffset(end, ALL) == end
    assert rows(reader, start, end) == NUMBERS
    later = reader.latestOffset(end, ALL)
    assert rows(reader, end, later) == NUMBERS, "not acknowledged, so they come again"
    reader.commit(later)
    die(reader)
    assert depth(client, queue) == 0


def _lose(*_: object) -> None:
    raise Lost("gone")


# As a batch


def test_a_batch_is_refused_unless_it_is_said_how(options: Options) -> None:
    with pytest.raises(OptionError, match=r"destructive=true.*browse=true"):
        AmqpBatchReader(options)
    with pytest.raises(OptionError, match="destructive=true"):
        AmqpBatchReader(replace(options, destructive=True, browse=True))


@pytest.mark.parametrize("is_browsing", [True, False], ids=["browse", "destructive"])
def test_a_batch_reads_what_is_there(is_browsing: bool, options: Options, client: Connection, queue: str) -> None:
    fill(client, queue, *NUMBERS)
    reader = AmqpBatchReader(replace(options, browse=is_browsing, destructive=not is_browsing))
    batches: list[pa.RecordBatch] = []
    for partition in reader.partitions():
        batches.extend(reader.read(partition))
    assert [row["body"] for batch in batches for row in batch.to_pylist()] == NUMBERS
    assert depth(client, queue) == (50 if is_browsing else 0)


@pytest.mark.parametrize("wanted", [{"queue": None}, {"queue_type": "stream"}])
def test_queues_that_cannot_be_read(options: Options, wanted: dict[str, str | None]) -> None:
    with pytest.raises(OptionError, match=r"option queue is missing|stream queues are not there yet"):
        stream_reader(replace(options, **wanted))  # type: ignore[arg-type]


def test_a_queue_is_made_if_asked_for(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    missing = f"{queue}-missing"
    start: Offset = {"position": 0}
    with pytest.raises(AmqpError, match="404 NOT_FOUND - no queue"):
        made(replace(options, queue=missing)).latestOffset(start, ALL)
    assert made(replace(options, queue=f"{missing}-made", declare="create")).latestOffset(start, ALL) == start
    assert depth(client, f"{missing}-made") == 0


def test_a_spool_needs_a_place(options: Options) -> None:
    with pytest.raises(OptionError, match="spoolLocation"):
        stream_reader(replace(options, spool_location=None))


def test_no_limit_is_a_limit_too(
    options: Options, client: Connection, queue: str, made: Callable[..., QueueReader]
) -> None:
    fill(client, queue, *NUMBERS)
    reader = made(options)
    start = reader.initialOffset()
    assert rows(reader, start, reader.latestOffset(start, ReadAllAvailable())) == NUMBERS

"""Queues to DataFrames.

A classic queue forgets acknowledged messages, and Spark may ask for an epoch again: `ackMode` chooses when to
acknowledge (docs/spark.md). Delivery tags belong to a channel, so the driver consumes, and rows travel inside the
partitions. Spark makes several readers, most only to pickle them: a reader opens nothing before the first call.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.spark.decode import arrow_schema, to_batch
from rabbitlike.spark.dial import RETRY_AFTER_S, Lost
from rabbitlike.spark.options import OptionError, Options
from rabbitlike.spark.spool import Spool, SpoolError, drop_repeated, identify
from rabbitlike.spark.topology import prepare_queue
from rabbitlike.spark.wire import Connection, Delivery

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows per batch handed to Spark.
BATCH_ROWS: Final = 10000
#: How long `availableNow` waits for messages that the broker has reported.
PATIENCE_S: Final = 10.0
PREFETCH_MAX: Final = 65535

Offset = dict[str, int | str]
#: The `latestOffset` that Spark shows for a source.
Report = dict[str, int | str]


class QueueShare(InputPartition):
    """The number of messages that one task takes from the queue."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class Rows(InputPartition):
    """Rows as an Arrow stream."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None)
        self.data = data

    def __repr__(self) -> str:
        return f"Rows({len(self.data)} octets)"


def queue_of(options: Options) -> str:
    """Return the queue to read; raise OptionError if it cannot be read."""
    if options.queue_type == "stream":
        raise OptionError("queueType=stream: stream queues are not there yet; classic queues can be read")
    if not options.queue:
        raise OptionError("option queue is missing: set it to the queue to read")
    return options.queue


class AmqpBatchReader(DataSourceReader):
    """`spark.read.format("amqp")`: reads the messages now in the queue, and removes or requeues them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._queue = queue_of(options)
        if options.destructive == options.browse:
            raise OptionError(
                "a batch read takes messages out of the queue, and Spark may read twice: say destructive=true and "
                "persist or write the rows first thing, or say browse=true to look at them and give them back"
            )

    def partitions(self) -> Sequence[InputPartition]:
        with Connection(self._options.address, timeout_s=self._options.timeout_s, redial_s=0) as connection:
            count = prepare_queue(connection, self._options, self._queue)
        # Browsing requeues messages, so a second task could read them again.
        tasks = 1 if self._options.browse else self._options.num_partitions
        return [QueueShare(count * (task + 1) // tasks - count * task // tasks) for task in range(tasks)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, QueueShare)
        left = partition.count
        tag = 0
        connection = Connection(self._options.address, timeout_s=self._options.timeout_s)
        try:
            while left > 0 and (taken := connection.get(self._queue, min(left, BATCH_ROWS))):
                left -= len(taken)
                tag = taken[-1].tag
                yield to_batch(taken, self._queue, include_headers=self._options.include_headers)
            if tag and self._options.destructive:
                connection.ack(tag)
            connection.close()
        finally:
            connection.abandon()


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Base of the stream readers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._queue = queue_of(options)
        self._link: Connection | None = None
        #: Whether the broker was reached before. Only then does the reader wait for a missing broker.
        self._has_met = False
        #: How many messages `availableNow` still has to read; None: unlimited.
        self._left: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 Spark's name
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        with self._dial() as connection:
            self._left = prepare_queue(connection, self._options, self._queue)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        assert isinstance(partition, Rows)
        with pa.ipc.open_stream(partition.data) as reader:
            yield from reader

    def reportLatestOffset(self) -> Report | None:  # noqa: N802 Spark's name
        """Return queue and lag: the number of messages in no epoch yet. None if the broker is not reachable."""
        if self._link is None:
            return None
        try:
            ready = self._link.declare_queue(self._queue, passive=True).message_count
        except (Lost, AmqpError):  # the next epoch meets the same error and handles it
            self._disconnect()
            return None
        lag = ready + self._link.buffered + self._waiting()
        return {"source": f"queue {self._queue} of {self._options.address}", "lag": lag, **self._latest(lag)}

    def _waiting(self) -> int:
        """Return the number of messages taken from the queue that are in no epoch yet."""
        return 0

    def _latest(self, lag: int) -> Offset:
        """Return the offset after the last message of the queue."""
        raise NotImplementedError

    def stop(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.abandon()
            self._link = None

    #: Epochs under way before the first of them is acknowledged.
    epochs_held = 1

    @property
    def _prefetch(self) -> int:
        wanted = self._options.prefetch_count or self.epochs_held * self._options.max_rows_per_trigger
        return min(wanted, PREFETCH_MAX)

    def _unacked(self) -> int:
        """Return the number of unacknowledged messages among those taken from the consumer."""
        return 0

    def _dial(self) -> Connection:
        name = f"rabbitlike.spark reads {self._queue}"
        return Connection(self._options.address, timeout_s=self._options.timeout_s, name=name, redial_s=0)

    def _connection(self) -> Connection:
        """Return the reading connection; raise Lost if the broker is missing or not back within the timeout."""
        deadline = time.monotonic() + (self._options.timeout_s if self._has_met else 0)
        while self._link is None:
            try:
                self._link = self._connect()
            except Lost:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_AFTER_S)
        self._has_met = True
        return self._link

    def _connect(self) -> Connection:
        link = self._dial()
        try:
            prepare_queue(link, self._options, self._queue)
            self._begin(link)
        except BaseException:
            link.abandon()
            raise
        return link

    def _begin(self, link: Connection) -> None:
        """Start consuming. Acknowledgements use transactions: commit-ok proves that the broker has them."""
        link.consume(self._queue, prefetch=self._prefetch)
        link.select_tx()

    def _wanted(self, limit: ReadLimit) -> int:
        wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else PREFETCH_MAX
        return wanted if self._left is None else min(wanted, self._left)

    def _took(self, count: int) -> None:
        if self._left is not None:
            self._left = self._left - count if count else 0  # none came: other consumers have them

    def _take(self, connection: Connection, limit: ReadLimit) -> list[Delivery]:
        """Return messages delivered to the consumer, within the limits of one epoch."""
        wanted = min(self._wanted(limit), self._prefetch - self._unacked())
        if wanted <= 0:
            return []
        wait_s = self._options.poll_timeout_ms / 1000 if self._left is None else PATIENCE_S
        taken = connection.take(wanted, wait_s, self._options.max_bytes_per_trigger)
        self._took(len(taken))
        return taken

    def _batch(self, deliveries: Sequence[Delivery], first: int | None) -> "pa.RecordBatch":
        return to_batch(deliveries, self._queue, include_headers=self._options.include_headers, first_offset=first)

    @property
    def _schema(self) -> "pa.Schema":
        return arrow_schema(self._options.include_headers)

    def _split(self, rows: "pa.Table") -> list[InputPartition]:
        """Split rows into the requested number of partitions."""
        import pyarrow as pa

        parts: list[InputPartition] = []
        tasks = min(self._options.num_partitions, rows.num_rows)
        for task in range(tasks):
            first, end = rows.num_rows * task // tasks, rows.num_rows * (task + 1) // tasks
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.slice(first, end - first), max_chunksize=BATCH_ROWS)
            parts.append(Rows(sink.getvalue().to_pybytes()))
        return parts


class SpooledReader(QueueReader):
    """`ackMode=spool`: stores rows on the driver's disk, then acknowledges, and keeps them until Spark is done."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if options.spool_location is None:
            raise OptionError(
                "ackMode=spool needs the option spoolLocation: a folder that outlives the query, as its checkpoint does"
            )
        self._location = options.spool_location
        self._opened: Spool | None = None
        #: Rows before this position are in epochs.
        self._position = 0

    @property
    def _spool(self) -> Spool:
        if self._opened is None:
            self._opened = Spool(self._location, self._queue, self._options.timeout_s)
        return self._opened

    def initialOffset(self) -> Offset:  # noqa: N802 Spark's name
        return {"position": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 Spark's name
        self._position = self._find_end(int(start["position"]), limit)
        return {"position": self._position}

    def _find_end(self, position: int, limit: ReadLimit) -> int:
        """Return the end of the epoch that begins at `position`."""
        if position == 0 and self._spool.is_used:
            # Spark restarts at the beginning only until it has recorded the first epoch.
            raise SpoolError(
                f"the checkpoint is new, and the spool {self._spool.folder} is of a query that had another one: give "
                "this query a spoolLocation of its own. To begin anew, delete that folder: rows in it that were not "
                "processed are lost then, they are not in the queue any more"
            )
        end = self._spool.following(position)
        if end is not None:
            return end
        if position < self._spool.end:
            raise SpoolError(f"the checkpoint is at row {position}, and the spool begins at {self._spool.first}")
        if position > self._spool.end and self._options.fail_on_data_loss:
            raise SpoolError(
                f"the checkpoint is at row {position}, and the spool ends at {self._spool.end}: is it another query's? "
                "failOnDataLoss=false goes on from there"
            )
        return self._fetch(position, limit)

    def _fetch(self, position: int, limit: ReadLimit) -> int:
        """Add one segment; return its end."""
        connection = self._connection()
        segment = None
        try:
            taken = self._take(connection, limit)
            if not taken:
                return position
            fresh = drop_repeated(taken, self._spool.doubts)
            if fresh:
                segment = self._spool.add(position, self._batch(fresh, position), list(map(identify, fresh)))
            connection.ack(taken[-1].tag)
            connection.commit_tx()
        except Lost:
            # Whether or not the commit succeeded, the rows are safe in the spool or in the queue.
            self._disconnect()
            if segment is None:
                return position
            self._spool.doubt(segment)
            return segment.end
        if segment is None:
            return position
        self._spool.acknowledged(segment)
        return segment.end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, stop = int(start["position"]), int(end["position"])
        if stop <= first:
            return []
        self._spool.use()
        return self._split(self._spool.read(first, stop, self._schema))

    def commit(self, end: Offset) -> None:
        self._spool.forget(int(end["position"]))

    def _waiting(self) -> int:
        return max(0, self._spool.end - self._position)

    def _latest(self, lag: int) -> Offset:
        return {"position": self._position + lag}


class Held(NamedTuple):
    """Rows that Spark has not reported as processed, and their delivery tag, which is valid only on `link`."""

    first: int
    end: int
    rows: "pa.RecordBatch"
    link: Connection
    tag: int


class UnspooledReader(QueueReader):
    """`ackMode=commit` and `auto`: rows are only in this process.

    Positions count from the start of the process, whose name is part of each offset. An epoch of another process is
    lost: with `commit` its messages are back in the queue and come in an epoch of their own, with `auto` they are gone.
    """

    #: The next epoch is fetched before Spark reports this one as done: the prefetch must allow for both.
    epochs_held = 2

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._is_auto = options.ack_mode == "auto"
        self._run = uuid4().hex
        self._end = 0
        self._held: list[Held] = []

    def initialOffset(self) -> Offset:  # noqa: N802 Spark's name
        return {"run": "", "position": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 Spark's name
        link = self._connection()
        try:
            taken = self._receive(link, limit) if self._is_auto else self._take(link, limit)
        except Lost:
            self._disconnect()
            return start
        if not taken:
            return start
        first = self._end
        self._end += len(taken)
        self._held.append(Held(first, self._end, self._batch(taken, None), link, taken[-1].tag))
        return {"run": self._run, "position": self._end}

    def _begin(self, link: Connection) -> None:
        if not self._is_auto:
            super()._begin(link)

    def _unacked(self) -> int:
        return sum(held.end - held.first for held in self._held if held.link is self._link)

    def _receive(self, link: Connection, limit: ReadLimit) -> list[Delivery]:
        """Get messages without acknowledgement: the broker forgets them as it sends them."""
        wanted = self._wanted(limit)
        taken = link.get(self._queue, wanted, no_ack=True) if wanted > 0 else []
        self._took(len(taken))
        return taken

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        import pyarrow as pa

        if end["run"] != self._run:
            return []
        first = int(start["position"]) if start["run"] == self._run else 0
        batches = [held.rows for held in self._held if first <= held.first and held.end <= int(end["position"])]
        return self._split(pa.Table.from_batches(batches)) if batches else []

    def commit(self, end: Offset) -> None:
        if end["run"] != self._run:
            return
        done = [held for held in self._held if held.end <= int(end["position"])]
        self._held = self._held[len(done) :]
        # Messages of a lost connection are back in the queue. Their tags mean other messages on this connection.
        tags = [held.tag for held in done if held.link is self._link]
        if tags and self._link is not None and not self._is_auto:
            try:
                self._link.ack(max(tags))
                self._link.commit_tx()
            except Lost:
                self._disconnect()

    def _latest(self, lag: int) -> Offset:
        return {"run": self._run, "position": self._end + lag}


class RefusedReader(DataSourceStreamReader):
    """Raises the error on the first call.

    If construction failed, Spark would stop a reader that does not exist, and users would see only the second error.
    """

    def __init__(self, error: ValueError) -> None:
        self._error = error

    def initialOffset(self) -> Offset:  # noqa: N802 Spark's name
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 Spark's name
        raise self._error

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 Spark's name
        raise self._error

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        raise self._error


def stream_reader(options: Options) -> QueueReader:
    """Return the reader for `ackMode`."""
    return SpooledReader(options) if options.ack_mode == "spool" else UnspooledReader(options)

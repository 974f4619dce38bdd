"""DataFrames to the broker. docs/spark.md explains what each guarantee promises and why it holds.

`at-least-once` and `effectively-once` publish in the tasks and return when everything is confirmed. With `exactly-once`
the tasks pass their messages to the driver, which publishes them in one transaction. A writer keeps no state between
`write` and `commit`: in a stream they are different objects in different processes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rabbitlike.spark import ledger
from rabbitlike.spark.encode import Draft, Encoder, Messages
from rabbitlike.spark.identity import Task, Writing, content_ids, current_task, position_ids
from rabbitlike.spark.options import OptionError, Options
from rabbitlike.spark.publisher import Publisher
from rabbitlike.spark.schema import ColumnError, WritePlan
from rabbitlike.spark.topology import prepare
from rabbitlike.spark.wire import Connection

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Published(WriterCommitMessage):
    """A partition that the broker has confirmed."""

    partition: int
    rows: int


@dataclass
class Staged(WriterCommitMessage):
    """A partition for the driver to write. `writing` is None if repetitions cannot be recognised."""

    partition: int
    writing: Writing | None
    query: str
    parts: list[Messages]
    size: int
    redial_s: float | None


class TooLarge(Exception):
    """The messages exceed what the driver may hold."""


class Sink:
    """Base of the batch and stream writers. It is pickled and sent to the tasks."""

    def __init__(self, options: Options, plan: WritePlan, *, is_stream: bool) -> None:
        self.options = options
        self.plan = plan
        self.is_stream = is_stream
        #: The same for all tasks of a batch job, because its one writer is made before them.
        self.job_id = uuid4().hex
        #: Whether no broker was reachable when a batch job began.
        self.is_away = False
        if options.ids == "column" and "message_id" not in plan.places:
            raise ColumnError("option idStrategy is column, and there is no column message_id")
        if is_stream and options.txn_version is not None:
            raise OptionError("option txnVersion has no place in a stream: its epochs are the versions")
        if not is_stream and options.txn_version is not None and options.txn_app_id is None:
            raise OptionError("option txnVersion needs txnAppId beside it")

    def write(self, batches: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        task = current_task()
        if self.options.guarantee == "exactly-once":
            return self._stage(batches, task)
        rows = 0
        connection: Connection | None = None
        publisher: Publisher | None = None
        try:
            for messages in self.messages(batches, task):
                if connection is None or publisher is None:
                    connection = self._connect(task)
                    publisher = Publisher(connection, self.options.max_in_flight)
                publisher.publish(messages.routes, messages.properties, messages.bodies)
                rows += messages.count
            if connection is not None and publisher is not None:
                publisher.finish()
                connection.close()
        except BaseException:
            if connection is not None:
                connection.abandon()
            raise
        return Published(task.partition, rows)

    def _connect(self, task: Task) -> Connection:
        options = self.options
        who = options.query_name or task.query or self.job_id
        name = f"rabbitlike.spark {who} writes partition {task.partition} attempt {task.attempt}"
        redial_s = self._redial_s(task)
        connection = Connection(options.address, timeout_s=options.timeout_s, name=name, redial_s=redial_s)
        try:
            prepare(connection, self.options)
        except BaseException:
            connection.abandon()
            raise
        return connection

    def _redial_s(self, task: Task) -> float | None:
        """Return how long to retry while no broker listens; None means as long as the options say.

        0 in a query's first epoch, and in a batch that began without a broker: Spark would run four waiting attempts in
        a row.
        """
        is_first_look = task.epoch == 0 if self.is_stream else self.is_away and not task.epoch
        return 0 if is_first_look else None

    def messages(self, batches: "Iterator[pa.RecordBatch]", task: Task) -> Iterator[Messages]:
        """Yield the partition's messages, batch by batch, with their ids."""
        encoder = Encoder(self.plan, self.options)
        if self.options.ids == "none":
            for batch in batches:
                if batch.num_rows:
                    yield encoder.encode(batch).finish()
            return
        numbering = Numbering(self.options.ids, self.identify(task), task.partition)
        with_header = self.options.guarantee == "effectively-once"
        for batch in batches:
            if batch.num_rows:
                draft = encoder.encode(batch)
                yield draft.finish_with_ids(numbering.ids(draft), with_header=with_header)

    def identify(self, task: Task) -> Writing:
        """Return the identity that this write shares with a repetition of it."""
        options = self.options
        if self.is_stream:
            if task.query is None or task.epoch is None:
                raise RuntimeError("this Spark tells tasks neither query nor epoch: only at-least-once is possible")
            return Writing(options.txn_app_id or task.query, task.epoch)
        if options.txn_app_id is not None:
            version = options.txn_version if options.txn_version is not None else task.epoch
            if version is None:
                raise OptionError("option txnAppId needs txnVersion beside it")
            return Writing(options.txn_app_id, version)
        if task.query is not None:
            raise OptionError(
                f"{options.guarantee} within foreachBatch needs the option txnAppId, another one for each write: "
                "without it two writes of one epoch could not be told apart"
            )
        return Writing(self.job_id, 0)

    def _stage(self, batches: "Iterator[pa.RecordBatch]", task: Task) -> Staged:
        parts: list[Messages] = []
        size = 0
        for messages in self.messages(batches, task):
            part = Messages(
                messages.count,
                list(islice(messages.routes, messages.count)),
                list(islice(messages.properties, messages.count)),
                messages.bodies,
            )
            size += sum(map(len, part.properties)) + sum(map(len, part.bodies))
            self._check_size(size)
            parts.append(part)
        writing = self.identify(task)
        is_noted = self.is_stream or self.options.txn_app_id is not None
        return Staged(
            task.partition, writing if is_noted else None, task.query or "", parts, size, self._redial_s(task)
        )

    def _check_size(self, size: int) -> None:
        if size > self.options.max_atomic_bytes:
            raise TooLarge(
                f"exactly-once passes messages through the driver, and these are more than {size} octets, "
                f"maxAtomicBytes is {self.options.max_atomic_bytes}: raise it, or use effectively-once"
            )

    def commit_staged(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, commit the messages of all partitions, in order of partition, in one transaction."""
        staged = sorted((each for each in messages if isinstance(each, Staged)), key=lambda each: each.partition)
        if not staged:
            return
        self._check_size(sum(each.size for each in staged))
        parts = [part for each in staged for part in each.parts]
        writing = staged[0].writing
        redial_s = staged[0].redial_s
        if writing is not None:
            query = staged[0].query if self.is_stream else ""
            ledger.write_once(self.options, writing, query, parts, redial_s)
        elif parts:
            ledger.write_whole(self.options, parts, redial_s)


class Numbering:
    """Assigns ids to the rows of a partition."""

    def __init__(self, strategy: str, writing: Writing, partition: int) -> None:
        self._strategy = strategy
        self._writing = writing
        self._partition = partition
        self._seen: dict[bytes, int] = {}
        self._row = 0

    def ids(self, draft: Draft) -> list[bytes]:
        """Return the ids of a batch; values of the column message_id take precedence."""
        given = draft.message_ids()
        if given is not None and b"" not in given:
            return [each[1:] for each in given]
        if self._strategy == "column":
            raise ColumnError("column 'message_id' is null in a row, and the option idStrategy is column")
        made = self._made(draft)
        if given is None:
            return made
        return [own[1:] if own else id_ for own, id_ in zip(given, made, strict=True)]

    def _made(self, draft: Draft) -> list[bytes]:
        if self._strategy == "position":
            first = self._row
            self._row += draft.count
            return list(islice(position_ids(self._writing, self._partition, first), draft.count))
        plain = draft.finish()
        columns = zip(plain.bodies, plain.routes, plain.properties, strict=False)
        rows = ((address, property_list, body) for body, address, property_list in columns)
        return list(content_ids(self._writing, self._partition, self._seen, rows))


class AmqpBatchWriter(DataSourceArrowWriter):
    """`df.write.format("amqp")`"""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self.sink = Sink(options, plan, is_stream=False)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.sink.commit_staged(messages)


class AmqpStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("amqp")`"""

    def __init__(self, options: Options, plan: WritePlan) -> None:
        self._sink = Sink(options, plan, is_stream=True)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        self._sink.commit_staged(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Do nothing: published messages cannot be taken back, and staged messages were never sent."""

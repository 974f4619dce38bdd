"""`format("amqp")`: readers and writers for Spark. Register it once in each session:

    spark.dataSource.register(AmqpDataSource)

The class is pickled by reference: executors need this package, installed or by `--py-files` (see bundle.py).
"""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rabbitlike.spark import options as amqp_options
from rabbitlike.spark.dial import Lost
from rabbitlike.spark.options import OptionError, Options
from rabbitlike.spark.reader import AmqpBatchReader, QueueReader, RefusedReader, stream_reader
from rabbitlike.spark.schema import check_read, plan_write, read_ddl
from rabbitlike.spark.wire import Connection
from rabbitlike.spark.writer import AmqpBatchWriter, AmqpStreamWriter


class AmqpDataSource(DataSource):
    """Queues and exchanges of an AMQP 0-9-1 broker, rabbitlike or RabbitMQ."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        # Parse here, on the driver: executors may lack the environment variable with the URI.
        self.amqp: Options = amqp_options.parse(options)

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> str:
        return read_ddl(self.amqp)

    def reader(self, schema: StructType) -> AmqpBatchReader:
        check_read(schema, self.amqp)
        return AmqpBatchReader(self.amqp)

    def streamReader(self, schema: StructType) -> QueueReader | RefusedReader:  # noqa: N802 Spark's name
        try:
            check_read(schema, self.amqp)
            return stream_reader(self.amqp)
        except ValueError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> AmqpBatchWriter:
        writer = AmqpBatchWriter(self.amqp, plan_write(schema, self.amqp))
        if overwrite:
            _check_purge(self.amqp)
        try:
            with Connection(self.amqp.address, timeout_s=self.amqp.timeout_s, redial_s=0) as connection:
                if overwrite:
                    connection.purge(self.amqp.routing_key or "")
        except Lost:
            if overwrite:
                raise
            writer.sink.is_away = True
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> AmqpStreamWriter:  # noqa: N802 Spark's name
        # overwrite is the output mode complete: as with Kafka, every epoch publishes the whole result.
        return AmqpStreamWriter(self.amqp, plan_write(schema, self.amqp))


def _check_purge(options: Options) -> None:
    """Mode overwrite requires an option that says what it means."""
    if options.overwrite_action != "purge":
        raise OptionError(
            'mode("overwrite") would delete messages: use mode("append"), or the option overwriteAction=purge to empty '
            "the queue that routingKey names first"
        )
    if options.exchange or not options.routing_key:
        raise OptionError("overwriteAction=purge empties one queue: name it by routingKey, with no exchange")

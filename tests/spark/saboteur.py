"""`format("amqp-saboteur")`: the sink, with a hand that breaks it where it hurts most.

In a batch the first attempt of every task fails after all it wrote was confirmed; or, with the option `gate`, every
task halts half way until the file is there that it names. In a stream the process that commits epoch 1 dies right after
it, as long as the file is there that the option `fuse` names; it takes that file with it.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from rabbitlike.spark.options import Options
from rabbitlike.spark.schema import WritePlan, plan_write
from rabbitlike.spark.source import AmqpDataSource
from rabbitlike.spark.writer import AmqpBatchWriter, AmqpStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa


class Sabotage(Exception):
    """Meant."""


class FailingBatchWriter(AmqpBatchWriter):
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        message = super().write(iterator)
        if TaskContext.get().attemptNumber() == 0:
            raise Sabotage("the task fails, what it wrote is written")
        return message


class HaltingBatchWriter(AmqpBatchWriter):
    def __init__(self, options: Options, plan: WritePlan, gate: Path) -> None:
        super().__init__(options, plan)
        self._gate = gate

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        return super().write(self._halting(iterator))

    def _halting(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            while not self._gate.exists():
                time.sleep(0.05)
            yield batch.slice(batch.num_rows // 2)


class DyingStreamWriter(AmqpStreamWriter):
    def __init__(self, options: Options, plan: WritePlan, fuse: Path) -> None:
        super().__init__(options, plan)
        self._fuse = fuse

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if batchId == 1 and self._fuse.exists():
            self._fuse.unlink()
            os._exit(9)


class SabotagedDataSource(AmqpDataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self._fuse = Path(given.pop("fuse", "/nowhere"))
        self._gate = given.pop("gate", None)
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "amqp-saboteur"

    def writer(self, schema: StructType, overwrite: bool) -> AmqpBatchWriter:
        plan = plan_write(schema, self.amqp)
        if self._gate is not None:
            return HaltingBatchWriter(self.amqp, plan, Path(self._gate))
        return FailingBatchWriter(self.amqp, plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AmqpStreamWriter:  # noqa: N802
        return DyingStreamWriter(self.amqp, plan_write(schema, self.amqp), self._fuse)

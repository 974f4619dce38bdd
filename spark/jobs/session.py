"""The Spark session of jobs: the one of `spark-submit`, or a local one."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rabbitlike.spark.java import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings for small tables made of big ones; tasks read several files each, because most files are small.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.openCostInBytes": "262144",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.streaming.stopTimeout": "60s",
    # A run generates some hundreds of classes. Spark caches 100 by default: the next run would generate all of them
    # again, and the JVM would optimise them again.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Lists are collected for some thousands of keys at once; by default Spark sorts from 128 keys on.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
#: Settings without `spark-submit`, which sets these itself.
LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    # On one machine adaptive execution gains nothing, and replanning between stages takes longer than small stages.
    "spark.sql.adaptive.enabled": "false",
}
#: JVM compiler level. With few events compilation took half of the time and never paid off. With many events,
#: aggregates of many columns are methods so long that the JVM by default leaves them to its interpreter.
LIGHT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HEAVY: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
#: Files of at most this many octets count as few events.
FEW: Final = 32_000_000


class NoSpark(Exception):
    """Spark is missing; the text says what to install."""


def check() -> None:
    """Raise NoSpark or NoJava if Spark cannot run."""
    if find_spec("pyspark") is None:
        raise NoSpark("The pipeline runs on Spark, which is not installed: pip install 'rabbitlike[spark]'")
    require()


def start(master: str | None = None, *, size: int | None = None, verbose: bool = False) -> "SparkSession":
    """Return a session with `format("amqp")`, tuned for `size` octets of files.

    The JVM's own log is hidden unless `verbose`: failures arrive as exceptions.
    """
    check()
    root = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH", "")
    os.environ.update(
        PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable),
        PYTHONPATH=os.pathsep.join([root, known] if known else [root]),
        SPARK_LOCAL_IP=os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    )
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf()
    if master or not conf.contains("spark.master"):
        conf.setMaster(master or "local[*]").setAppName("rabbitlike-pipeline")
        for name, value in LOCAL.items():
            conf.setIfMissing(name, value)
        conf.setIfMissing("spark.driver.extraJavaOptions", LIGHT if size is not None and size < FEW else HEAVY)
    for name, value in SETTINGS.items():
        conf.setIfMissing(name, value)
    with nullcontext() if verbose else _silence():
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    register(session)
    return session


@contextmanager
def _silence() -> Iterator[None]:
    """Discard standard error of processes started inside the block."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def register(session: "SparkSession") -> None:
    """Register the data source in a session, ours or not."""
    from rabbitlike.spark.source import AmqpDataSource

    session.dataSource.register(AmqpDataSource)
    if session.conf.get("spark.sql.shuffle.partitions", "200") == "200":
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))

"""The Spark that jobs run on: the one of `spark-submit`, or one on this machine."""

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

#: For small tables made of big ones; tasks take files by the handful, as most are small.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.openCostInBytes": "262144",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.streaming.stopTimeout": "60s",
    # A run makes some hundreds of classes. Spark keeps 100 by default: the next would make them all again, and the JVM
    # begin anew to make them fast.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Lists are collected for some thousands of keys at once; Spark would begin to sort at 128.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
#: Without `spark-submit`, which has its own words for these.
LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    # On one machine there is nothing to adapt to, and thinking anew between stages takes longer than small stages do.
    "spark.sql.adaptive.enabled": "false",
}
#: How hard the JVM tries to make code fast. For few events half of all time went into that, and was never earned back.
#: For many, aggregates of many columns are methods so long that it would leave them to its interpreter.
LIGHT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HEAVY: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
#: Up to so many octets of files are few events.
FEW: Final = 32_000_000


class NoSpark(Exception):
    """The text says what to install."""


def check() -> None:
    """NoSpark or NoJava when there is nothing to run on."""
    if find_spec("pyspark") is None:
        raise NoSpark("The pipeline runs on Spark, which is not installed: pip install 'rabbitlike[spark]'")
    require()


def start(master: str | None = None, *, size: int | None = None, verbose: bool = False) -> "SparkSession":
    """A session, with `format("amqp")` in it, for so many octets of files.

    What the JVM says for itself is left out, unless one wants to hear it: failures come as exceptions.
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
    """Processes started within write their errors nowhere."""
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
    """What every session needs, ours or not."""
    from rabbitlike.spark.source import AmqpDataSource

    session.dataSource.register(AmqpDataSource)
    if session.conf.get("spark.sql.shuffle.partitions", "200") == "200":
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))

"""Executors in processes of their own, with nothing of ours but a zip: spark-submit --py-files on a local cluster."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import bundle
from rabbitlike.spark.java import NoJava, require
from rabbitlike.spark.wire import Delivery
from tests.spark.on_cluster import ROWS, TIMES

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_S = 300


def test_ids_are_the_same_after_a_shuffle_on_a_cluster(
    uri: str, queue: str, drain: Callable[[str], list[Delivery]], tmp_path: Path
) -> None:
    """Two executors hand rows over in an order that differs from run to run: only what a row says can be its id."""
    try:
        require()
    except NoJava as error:
        pytest.skip(f"needs Java: {error}")
    bundle.write(tmp_path / "bundle.zip")
    said = submit(tmp_path, uri, queue)
    told = re.search(r"application: (.*)\nplaces: (.*)", said)
    assert told, said
    # A local cluster writes beside Spark itself, whatever one tells it.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / told[1], ignore_errors=True)
    assert all("bundle.zip" in place for place in told[2].split()), told[2]
    deliveries = drain(queue)
    assert len(deliveries) == ROWS * TIMES
    ids = {(Properties(delivery.properties).message_id, delivery.body) for delivery in deliveries}
    assert len(ids) == ROWS, "the same ids each time, and never one id for two rows"
    assert Counter(body for _, body in ids) == {b"%d" % number: 3 for number in range(1000)}


def submit(folder: Path, *arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    variables = kept | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.adaptive.enabled": "false",  # it would put the three partitions into one
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    ended = subprocess.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", "local-cluster[2,1,1024]", "--py-files", str(folder / "bundle.zip")),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            str(Path(__file__).with_name("on_cluster.py")),
            *arguments,
        ],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout

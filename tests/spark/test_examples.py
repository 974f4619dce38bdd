"""Examples of the documentation that need Spark: fenced blocks that open with ```python spark.

They run in the tests' own session, which `getOrCreate` finds; localhost:5672 stands for the tests' broker.
"""

import pytest
from pyspark.sql import SparkSession

from tests.support.broker_process import BrokerProcess
from tests.test_docs import ADDRESS, Block, blocks

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("block", blocks("python spark"), ids=str)
def test_example_runs(
    spark: SparkSession, broker: BrokerProcess, block: Block, capsys: pytest.CaptureFixture[str]
) -> None:
    program = compile(block.text.replace(ADDRESS, f"localhost:{broker.port}"), str(block), "exec")
    exec(program, {"__name__": "__main__"})
    if block.output is not None:
        assert capsys.readouterr().out == block.output

"""A job for spark-submit: writes the same shuffled rows twice, and tells where executors have the package from.

usage: on_cluster.py uri queue
"""

import sys

from pyspark.sql import SparkSession

from rabbitlike.spark.source import AmqpDataSource

ROWS = 3000
TIMES = 2


def whereabouts(_: object) -> str:
    import rabbitlike.spark.wire

    return rabbitlike.spark.wire.__file__


def main(uri: str, queue: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(AmqpDataSource)
    rows = spark.range(0, ROWS, numPartitions=4).selectExpr("cast(id % 1000 as string) as body", "id % 7 as k")
    shuffled = rows.repartition(3, "k").select("body")
    for _ in range(TIMES):
        (
            shuffled.write.format("amqp")
            .options(uri=uri, routingKey=queue, guarantee="effectively-once", txnAppId="cluster", txnVersion="1")
            .mode("append")
            .save()
        )
    places = set(spark.sparkContext.parallelize(range(8), 4).map(whereabouts).collect())
    sys.stdout.write(f"application: {spark.sparkContext.applicationId}\nplaces: {' '.join(sorted(places))}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The tables of results, computed from partials and, where possible, from each other."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from rabbitlike.spark.jobs import anomalies, poison, starvation
from rabbitlike.spark.jobs.metrics import METRIC, summarise, sums
from rabbitlike.spark.jobs.partials import PLACE, POISONOUS, Partials

#: The tables that are written.
TABLES: Final = ("metrics", "queues", "consumers", "starvation", "anomalies", "poison")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the analysis."""

    window_us: int
    poisonous: int = POISONOUS
    top: int = poison.TOP
    patience: int = starvation.PATIENCE
    trailing: int = anomalies.TRAILING


@dataclass(frozen=True, slots=True)
class Results:
    """Tables with one row per window and the keys below."""

    #: Queue, priority and consumer group: the source of the following tables; can be added up.
    sums: DataFrame
    #: The same keys, computed.
    metrics: DataFrame
    #: Queue.
    queues: DataFrame
    #: Queue and consumer group, with histograms; evaluated on use.
    groups: DataFrame
    #: Queue and priority.
    priorities: DataFrame
    #: Queue and consumer group: how evenly its consumers receive messages.
    consumers: DataFrame
    #: Queue and priority, including windows without events: which priorities starve.
    starvation: DataFrame
    #: Queue and unusual signal.
    anomalies: DataFrame
    #: Message that returned repeatedly.
    poison: DataFrame


@dataclass(frozen=True, slots=True)
class Overview:
    """Results over all windows, for reports about the past."""

    #: By queue, with histograms.
    totals: DataFrame
    #: The worst messages of each queue.
    poison: DataFrame


def overview(made: Results, suspects: DataFrame, settings: Settings) -> Overview:
    return Overview(
        totals=summarise(made.sums, ("vhost", "queue"), settings.window_us, histograms=True),
        poison=poison.poison(suspects, settings.top),
    )


def settled(table: DataFrame) -> DataFrame:
    """Compute a table now and keep it as long as it is referenced.

    Tables are made of each other: planning the full lineage each time took Spark longer than computing the tables.
    """
    return table.localCheckpoint()


def results(partials: Partials, settings: Settings) -> Results:
    """Compute results from `partials`, in which each key occurs once."""
    # Partition by place once: all tables are then made without another shuffle.
    window_us, finest = settings.window_us, settled(sums(partials.cells.repartition(*PLACE)))
    queues = settled(summarise(finest, PLACE, window_us))
    priorities = settled(summarise(finest, starvation.KEYS, window_us))
    return Results(
        sums=finest,
        metrics=settled(summarise(finest, METRIC, window_us)),
        queues=queues,
        groups=summarise(finest, (*PLACE, "consumer_group"), window_us, histograms=True),
        priorities=priorities,
        consumers=settled(poison.skew(partials.consumers)),
        starvation=settled(starvation.starvation(priorities, window_us, settings.patience)),
        anomalies=settled(anomalies.anomalies(queues, window_us, settings.trailing)),
        poison=settled(poison.poison(partials.suspects, settings.top, by_window=True)),
    )

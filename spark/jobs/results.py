"""Everything there is to say about some partials: the tables of results, made of each other where they can be."""

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
    """How events are judged."""

    window_us: int
    poisonous: int = POISONOUS
    top: int = poison.TOP
    patience: int = starvation.PATIENCE
    trailing: int = anomalies.TRAILING


@dataclass(frozen=True, slots=True)
class Results:
    """Tables with a row for each window and …"""

    #: … queue, priority and consumer group: what those that follow are made of, and to be added up,
    sums: DataFrame
    #: … the same, worked out,
    metrics: DataFrame
    #: … queue,
    queues: DataFrame
    #: … queue and consumer group, with histograms; to be worked out by who needs it,
    groups: DataFrame
    #: … queue and priority,
    priorities: DataFrame
    #: … queue and consumer group: how even its consumers are,
    consumers: DataFrame
    #: … queue and priority, also where nothing happened: who goes hungry,
    starvation: DataFrame
    #: … queue and signal that stands out,
    anomalies: DataFrame
    #: … message that came back again and again.
    poison: DataFrame


@dataclass(frozen=True, slots=True)
class Overview:
    """Over all windows, for those who look back."""

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
    """Worked out now, and kept as long as somebody holds it.

    Tables are made of each other: looking each time through all that they come from kept Spark busier than making them.
    """
    return table.localCheckpoint()


def results(partials: Partials, settings: Settings) -> Results:
    """`partials` have each key once."""
    # What belongs to a place is brought together once: all tables are made of it without moving it again.
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

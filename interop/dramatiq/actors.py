"""Actors for a worker of its own process, started by dramatiq's command."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=os.environ.get("INTEROP_DRAMATIQ_URL", "amqp://"), confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="work")
def answer(text: str) -> None:
    """Where the test can see it: in the worker's output."""
    print(f"answered {text}", flush=True)

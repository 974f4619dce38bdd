"""The Celery application under test; the worker process imports it, and so do the tests."""

import os
import time

from celery import Celery, Task

URL = os.environ.get("INTEROP_CELERY_URL", "amqp://")

app = Celery("interop", broker=URL, backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=2,
    task_default_queue=os.environ.get("INTEROP_CELERY_QUEUE", "celery"),
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    result_expires=60,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)


@app.task  # type: ignore[untyped-decorator]
def add(x: int, y: int) -> int:
    return x + y


@app.task  # type: ignore[untyped-decorator]
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def flaky(self: Task) -> int:
    """Works at the third attempt."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return int(self.request.retries)


@app.task  # type: ignore[untyped-decorator]
def now() -> float:
    return time.time()


@app.task  # type: ignore[untyped-decorator]
def echo(value: object) -> object:
    return value

"""Keeps what a real RabbitMQ answers, one file per question: `python -m interop.management.record FOLDER`."""

import json
import sys
from pathlib import Path

import httpx

from interop.management import rabbitmq, topology
from interop.management.answers import ask
from interop.management.asking import Request
from interop.management.changes import CHANGES
from interop.management.questions import QUESTIONS, path_of
from interop.management.refusals import REFUSALS


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    index = ["# What RabbitMQ answered", "", "| file | request | status |", "|---|---|---|"]
    with rabbitmq.running() as doors:
        held = topology.declare(doors)
        asked = [Request(name, "GET", path) for name, path in QUESTIONS.items()]
        for prefix, requests in (("get", asked), ("do", (*REFUSALS, *CHANGES))):
            for request in requests:
                path = path_of(request.path, held.names)
                answer = ask(doors, request, held.names)
                file = folder / f"{prefix}-{request.name}.json"
                file.write_text(json.dumps(_told(request, path, answer), indent=2, ensure_ascii=False) + "\n")
                index.append(f"| {file.name} | {request.method} {path.replace('|', '%7C')} | {answer.status_code} |")
        for name, query in (("metrics", ""), ("metrics-per-object", "/per-object"), ("metrics-detailed", _DETAILED)):
            text = httpx.get(f"http://127.0.0.1:{doors.metrics_port}/metrics{query}", trust_env=False).text
            (folder / f"{name}.txt").write_text(text)
            index.append(f"| {name}.txt | GET /metrics{query} | 200 |")
        doors.close()
    (folder / "INDEX.md").write_text("\n".join(index) + "\n")


_DETAILED = (
    "/detailed?family=queue_coarse_metrics&family=queue_consumer_count&family=channel_metrics&family=exchange_metrics"
)


def _told(request: Request, path: str, answer: httpx.Response) -> dict[str, object]:
    try:
        body: object = answer.json()
    except ValueError:
        body = answer.text
    return {
        "request": {
            "method": request.method,
            "path": f"/api{path}",
            "user": request.auth[0] if request.auth else None,
            "body": request.content.decode() if request.content is not None else request.body,
        },
        "status": answer.status_code,
        "headers": dict(answer.headers),
        "body": body,
    }


if __name__ == "__main__":
    record(Path(sys.argv[1]))

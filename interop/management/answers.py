"""All that one broker answers: the topology is declared on it, then everything is asked, in order."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from interop.management import topology
from interop.management.asking import Request
from interop.management.changes import CHANGES
from interop.management.doors import Doors
from interop.management.questions import QUESTIONS, path_of
from interop.management.refusals import REFUSALS
from interop.patience import eventually

ALIVENESS: Final = "/aliveness-test/parity"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: object


@dataclass
class Answers:
    """By the question's name. Names that the broker made up are replaced by `{what they name}`."""

    questions: dict[str, Answer] = field(default_factory=dict)
    changes: dict[str, Answer] = field(default_factory=dict)


def collect(doors: Doors) -> Answers:
    held = topology.declare(doors)
    answers = Answers()
    try:
        asked = [Request(name, "GET", path) for name, path in QUESTIONS.items()]
        answers.questions = _ask(doors, asked, held.names)
        answers.changes = _ask(doors, (*REFUSALS, *CHANGES), held.names)
    finally:
        held.close()
    return answers


def ask(doors: Doors, request: Request, names: dict[str, str]) -> httpx.Response:
    return doors.ask(
        path_of(request.path, names),
        request.method,
        request.body,
        auth=request.auth,
        content=request.content,
        headers=request.headers,
    )


def _ask(doors: Doors, requests: Iterable[Request], names: dict[str, str]) -> dict[str, Answer]:
    answers = {}
    for request in requests:
        assert request.name not in answers, request.name
        is_test = request.path == ALIVENESS
        before = _published(doors) if is_test else 0
        answer = ask(doors, request, names)
        answers[request.name] = Answer(answer.status_code, dict(answer.headers), _body(answer, names))
        if is_test:
            # It leaves a message in the statistics, which RabbitMQ makes now and then, and a queue.
            eventually(lambda before=before: _published(doors) > before, "statistics show the message")  # type: ignore[misc]
            doors.do("DELETE", "/queues/parity/aliveness-test")
    return answers


def _published(doors: Doors) -> int:
    vhost: Any = doors.get("/vhosts/parity")
    return int(vhost["message_stats"]["publish"])


def _body(answer: httpx.Response, names: dict[str, str]) -> object:
    text = answer.text
    for name, value in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(json.dumps(value, ensure_ascii=False)[1:-1], f"{{{name}}}")
    try:
        return json.loads(text)
    except ValueError:
        return text

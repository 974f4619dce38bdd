"""The same topology on RabbitMQ and here, the same questions to both: same fields, same types, same refusals."""

from dataclasses import dataclass

import pytest

from interop.management import answers
from interop.management.allowed import FIELDS, STATUSES, TEXTS
from interop.management.answers import Answer, Answers
from interop.management.changes import CHANGES
from interop.management.doors import Doors
from interop.management.questions import QUESTIONS
from interop.management.refusals import REFUSALS
from interop.management.shapes import Difference, compare

DELIVERY_COUNT = "x-delivery-count"
NAMES = [request.name for request in (*REFUSALS, *CHANGES)]


@dataclass(frozen=True)
class Both:
    theirs: Answers
    ours: Answers


@pytest.fixture(scope="module")
def both(theirs: Doors, ours: Doors) -> Both:
    return Both(answers.collect(theirs), answers.collect(ours))


def differences(name: str, theirs: Answer, ours: Answer) -> str:
    found = compare(name, theirs.body, ours.body)
    meant = [difference for difference in found if not any(allowed.covers(difference) for allowed in FIELDS)]
    return "\n".join(sorted({str(difference) for difference in meant}))


@pytest.mark.parametrize("question", QUESTIONS)
def test_fields_and_types(both: Both, question: str) -> None:
    theirs, ours = both.theirs.questions[question], both.ours.questions[question]
    assert ours.status == theirs.status, ours.body
    assert not (found := differences(question, theirs, ours)), found


@pytest.mark.parametrize("name", NAMES)
def test_statuses(both: Both, name: str) -> None:
    theirs, ours = both.theirs.changes[name], both.ours.changes[name]
    if name in STATUSES:
        expected, why = STATUSES[name]
        assert theirs.status != expected, f"no difference any more: {why}"
        assert ours.status == expected, ours.body
    elif theirs.status == 500:
        assert 400 <= ours.status < 500, f"RabbitMQ stumbles, we refuse: {ours.status} {ours.body}"
    else:
        assert ours.status == theirs.status, f"{ours.body} for {theirs.body}"
        assert _allowed(ours) == _allowed(theirs)
        assert ("location" in ours.headers) == ("location" in theirs.headers)


def _allowed(answer: Answer) -> set[str]:
    return set(answer.headers.get("allow", "").replace(" ", "").split(","))


@pytest.mark.parametrize("name", NAMES)
def test_bodies(both: Both, name: str) -> None:
    """Refusals word for word, what else is answered in shape."""
    theirs, ours = both.theirs.changes[name], both.ours.changes[name]
    if ours.status >= 400:
        assert isinstance(ours.body, dict)
        assert ours.body.keys() == {"error", "reason"}
        assert isinstance(ours.body["reason"], str | list)
    if name in STATUSES or name in TEXTS:
        assert theirs.body != ours.body, "no difference any more"
    elif theirs.status >= 400 and theirs.body == "":
        pass  # RabbitMQ says nothing, we do
    elif theirs.status >= 400 or name.startswith(("take-", "publish-")):
        assert _uncounted(ours.body) == theirs.body
    else:
        assert not (found := differences(name, theirs, ours)), found


def _uncounted(body: object) -> object:
    """Messages without the header that we add to those that come back, from every type of queue."""
    if not isinstance(body, list):
        return body
    for message in body:
        if message["redelivered"]:
            properties = message["properties"]
            assert properties["headers"].pop(DELIVERY_COUNT) >= 1
            if not properties["headers"]:
                del properties["headers"]
            message["properties"] = properties or []  # parity: none at all are an empty list
    return body


def test_every_exception_is_needed(both: Both) -> None:
    """What was made equal is taken off the list."""
    found: list[Difference] = []
    for theirs, ours in ((both.theirs.questions, both.ours.questions), (both.theirs.changes, both.ours.changes)):
        for name, answer in theirs.items():
            if answer.status == ours[name].status:
                found += compare(name, answer.body, ours[name].body)
    unused = [allowed for allowed in FIELDS if not any(allowed.covers(difference) for difference in found)]
    assert not unused, unused

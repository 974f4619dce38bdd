"""Every conversation of the corpus is the same with RabbitMQ and with us, but for what is listed."""

import pytest

from interop.parity import corpus
from interop.parity.allowed import CONVERSATIONS as ALLOWED
from interop.parity.allowed import EVERYWHERE, Rule
from interop.parity.conversations import CONVERSATIONS
from interop.parity.talk import Ports, Talk

corpus.read()
used: set[Rule] = set()
held: set[str] = set()


@pytest.mark.parametrize("name", sorted(CONVERSATIONS))
def test_conversation(ports: Ports, name: str) -> None:
    talk = Talk(ports)
    try:
        CONVERSATIONS[name](talk)
    finally:
        talk.end()
    used.update(talk.used)
    held.add(name)
    found = {
        difference: [item for item in ALLOWED if item.covers(name, difference.theirs, difference.ours)]
        for difference in talk.differences
    }
    meant = [str(difference) for difference, allowed in found.items() if not allowed]
    assert not meant, "\n".join([*meant, "", "The whole conversation:", *talk.transcript])
    needed = {item for allowed in found.values() for item in allowed}
    gone = [item for item in ALLOWED if item.names(name) and item not in needed]
    assert not gone, f"no difference any more: {gone}"


def test_every_rule_is_needed() -> None:
    """What was made equal is taken off the list."""
    if held != CONVERSATIONS.keys():
        pytest.skip("not all conversations were held")
    assert used == set(EVERYWHERE)
    unknown = [item for item in ALLOWED if not any(item.names(name) for name in CONVERSATIONS)]
    assert not unknown, unknown

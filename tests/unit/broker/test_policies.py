"""Which policy an object has, what a definition may say, and what argument, policy and operator policy come to."""

import pytest

from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, PolicyKind, join, merge, refusal
from rabbitlike.broker.policies.policies import Policy, effective_definition, make_policy
from rabbitlike.broker.publishing.deduplication import DeduplicationRules
from rabbitlike.broker.queue_settings.settings import TEN_YEARS_MS, Overflow, QueueType
from rabbitlike.broker.queue_settings.table import POLICIES
from rabbitlike.broker.terms import Json
from rabbitlike.broker.vhost import Vhost
from rabbitlike.protocol.tables import Table
from tests.support.pair import Pair


def policy(name: str = "p", kind: PolicyKind = POLICY, **said: Json) -> Policy:
    fields: dict[str, Json] = {"pattern": ".*", "definition": {"max-length": 5}, **said}
    return make_policy("/", name, kind, **fields)  # type: ignore[arg-type]


def home() -> Vhost:
    return Pair().broker.vhosts["/"]


# What is said, and refused


@pytest.mark.parametrize(
    ("kind", "definition", "text"),
    [
        (POLICY, {}, "no policy provided"),
        (POLICY, [], "definition must be a dictionary: []"),
        (POLICY, {"foo": 1}, '[{<<"foo">>,1}] are not recognised policy settings'),
        (
            POLICY,
            {"z": 1.5, "bar": [1, {"a": None}], "t": True},
            '[{<<"bar">>,[1,#{<<"a">> => null}]},{<<"t">>,true},{<<"z">>,1.5}] are not recognised policy settings',
        ),
        (POLICY, {"max-length": -1}, "-1 is not a valid maximum length"),
        (POLICY, {"max-length": "7", "foo": 1}, '<<"7">> is not a valid maximum length'),
        (POLICY, {"max-length": True}, "true is not a valid maximum length"),
        (POLICY, {"max-length": 1.5}, "1.5 is not a valid maximum length"),
        (POLICY, {"message-ttl": -5, "expires": 0}, "0 is not a valid queue expiry"),
        (POLICY, {"overflow": "zz"}, '<<"zz">> is not a valid overflow value'),
        (POLICY, {"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        (POLICY, {"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        (POLICY, {"queue-version": True}, "true is not a valid queue-version value"),
        (POLICY, {"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        (POLICY, {"max-age": "7X"}, '<<"7X">> is not a valid max age'),
        (
            POLICY,
            {"ha-sync-mode": "automatic"},
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown",
        ),
        (POLICY, {"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        (
            POLICY,
            {"federation-upstream": "a", "federation-upstream-set": "b"},
            "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together",
        ),
        (
            OPERATOR_POLICY,
            {"dead-letter-exchange": "x", "max-length": 1},
            '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
        (OPERATOR_POLICY, {"max-length": "s"}, '<<"s">> is not a valid maximum length'),
    ],
)
def test_definitions_are_refused_in_rabbitmqs_words(kind: PolicyKind, definition: Json, text: str) -> None:
    assert refusal(definition, kind) == text


@pytest.mark.parametrize(
    "definition",
    [
        {"expires": 1, "message-ttl": 0, "max-length": 0, "max-length-bytes": 0, "overflow": "reject-publish-dlx"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "", "dead-letter-strategy": "at-least-once"},
        {"delivery-limit": -1, "consumer-timeout": 1, "queue-mode": "lazy", "queue-version": 2},
        {"queue-leader-locator": "balanced", "queue-master-locator": "min-masters", "target-group-size": 3},
        {"ha-mode": "all"},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "ha-promote-on-failure": "always"},
        {"ha-mode": "nodes", "ha-params": ["a@b"]},
        {"federation-upstream-set": "all", "alternate-exchange": "x"},
        {"max-age": "7D", "stream-max-segment-size-bytes": 500, "stream-filter-size-bytes": 16},
    ],
)
def test_definitions_of_every_version_are_taken(definition: dict[str, Json]) -> None:
    assert refusal(definition, POLICY) is None


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ValueError) as error:
        policy(pattern="(", definition={"foo": 1}, apply_to="z", priority="5")
    assert str(error.value) == (
        "Validation failed\n\n"
        '[{<<"foo">>,1}] are not recognised policy settings\n'
        "apply-to 'z' unrecognised; should be one of: "
        "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'\n"
        'pattern should be regular expression but is invalid: {"missing )",1}\n'
        'priority should be a number, actually was <<"5">>\n'
    )


# Which one applies


def test_the_highest_priority_that_matches_wins_and_patterns_are_not_anchored() -> None:
    vhost = home()
    for name, pattern, priority in (("low", ".*", -1), ("mid", "rd", 1), ("high", "^orders$", 9)):
        vhost.policies.set(policy(name, pattern=pattern, priority=priority))
    for queue, expected in (("orders", "high"), ("orders2", "mid"), ("words", "low")):
        found, operator = vhost.policies.match("classic", queue)
        assert (found.name if found else None, operator) == (expected if queue != "words" else "mid", None)
    assert vhost.policies.clear(POLICY, "high")
    found, _ = vhost.policies.match("classic", "orders")
    assert found is not None
    assert found.name == "mid"


@pytest.mark.parametrize(
    ("apply_to", "targets"),
    [
        ("all", {"exchange", "classic", "quorum"}),
        ("queues", {"classic", "quorum"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("exchanges", {"exchange"}),
        ("streams", set()),
    ],
)
def test_apply_to_names_what_is_meant(apply_to: str, targets: set[str]) -> None:
    found = policy(apply_to=apply_to)
    assert {target for target in ("exchange", "classic", "quorum") if found.is_for(target, "x")} == targets  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("definition", "apply_to", "classic", "quorum"),
    [
        ({"max-length": 1, "queue-mode": "lazy"}, "queues", True, False),
        ({"max-length": 1, "ha-mode": "all"}, "all", True, False),
        ({"max-length": 1, "delivery-limit": 3}, "queues", False, True),
        ({"max-length": 1, "delivery-limit": 3}, "classic_queues", True, False),
        ({"max-length": 1, "max-age": "1D"}, "queues", False, False),
        ({"retry-initial": 1, "delivery-limit": 3}, "queues", True, True),
        ({"priority-mode": "weighted", "delivery-limit": 3}, "queues", True, True),
        ({"schema": "{}", "delivery-limit": 3}, "all", True, True),
        ({"delayed-retry-min": 1, "delivery-limit": 3}, "queues", False, True),
        ({"retry-initial": 1, "target-group-size": 3}, "queues", False, True),
        ({"max-length": 1, "queue-version": 2}, "queues", True, True),
    ],
)
def test_a_policy_with_a_key_foreign_to_a_type_is_not_for_its_queues(
    definition: Json, apply_to: str, classic: bool, quorum: bool
) -> None:
    found = policy(definition=definition, apply_to=apply_to)
    assert (found.is_for("classic", "q"), found.is_for("quorum", "q")) == (classic, quorum)


# What they come to


@pytest.mark.parametrize(
    ("key", "value", "operators", "merged"),
    [
        *[(key, 10, 20, 10) for key in ("expires", "message-ttl", "max-length", "max-length-bytes")],
        *[(key, 20, 10, 10) for key in ("expires", "message-ttl", "max-length", "max-length-bytes")],
        ("delivery-limit", 5, 3, 3),
        ("delivery-limit", -1, 3, 3),
        ("delivery-limit", 5, -1, 5),
        ("overflow", "drop-head", "reject-publish", "reject-publish"),
        ("queue-version", 2, 1, 1),
        ("target-group-size", 3, 5, 5),
        ("max-in-memory-length", 7, 6, 6),
    ],
)
def test_an_operator_policy_is_merged_over(key: str, value: Json, operators: Json, merged: Json) -> None:
    assert POLICIES[key].operator
    theirs: dict[str, Json] = {key: value, "consumer-timeout": 1}
    assert merge(theirs, {key: operators, "retry-timeout": 2}) == {
        "consumer-timeout": 1,
        "retry-timeout": 2,
        key: merged,
    }


@pytest.mark.parametrize(
    ("arguments", "definition", "queue_type", "field", "expected"),
    [
        ({"x-max-length": 10}, {"max-length": 5}, "classic", "max_length", 5),
        ({"x-max-length": 5}, {"max-length": 10}, "classic", "max_length", 5),
        ({}, {"max-length": 10}, "classic", "max_length", 10),
        ({"x-max-length": 10}, {}, "classic", "max_length", 10),
        ({"x-max-length-bytes": 10}, {"max-length-bytes": 5}, "quorum", "max_length_bytes", 5),
        ({"x-message-ttl": 10}, {"message-ttl": 5}, "classic", "message_ttl_ms", 5),
        ({"x-expires": 5}, {"expires": 10}, "classic", "expires_ms", 5),
        ({}, {"expires": 1 << 80}, "classic", "expires_ms", TEN_YEARS_MS),
        ({}, {"max-length": 1 << 80}, "classic", "max_length", 1 << 62),
        ({"x-dead-letter-exchange": "a"}, {"dead-letter-exchange": "b"}, "classic", "dead_letter_exchange", "a"),
        ({}, {"dead-letter-routing-key": "b"}, "classic", "dead_letter_routing_key", "b"),
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, "classic", "overflow", Overflow.DROP_HEAD),
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, "quorum", "overflow", Overflow.REJECT_PUBLISH),
        ({}, {"overflow": "reject-publish-dlx"}, "quorum", "overflow", Overflow.DROP_HEAD),
        ({}, {"delivery-limit": 50}, "quorum", "delivery_limit", 50),
        ({}, {"delivery-limit": -1}, "quorum", "delivery_limit", None),
        ({"x-delivery-limit": 5}, {"delivery-limit": -1}, "quorum", "delivery_limit", 5),
        ({"x-delivery-limit": 5}, {"delivery-limit": 9}, "quorum", "delivery_limit", 5),
        ({}, {}, "quorum", "delivery_limit", 20),
        ({}, {"consumer-timeout": 9}, "classic", "consumer_timeout_ms", 9),
        ({"x-max-priority": 3}, {"max-length": 9}, "classic", "levels", 4),
        (
            {"x-message-deduplication": True},
            {"cache-ttl": 1 << 80},
            "classic",
            "deduplication",
            DeduplicationRules(ttl_ms=TEN_YEARS_MS),
        ),
        ({"x-dead-letter-webhook": "http://a/"}, {}, "classic", "dead_letter_webhook", None),
        ({}, {"dlq-webhook": "http://b/"}, "classic", "dead_letter_webhook", "http://b/"),
    ],
)
def test_arguments_and_policy(
    arguments: dict[str, str | int], definition: dict[str, Json], queue_type: QueueType, field: str, expected: object
) -> None:
    """#88 the smaller of two limits, the argument's of two words."""
    assert getattr(join(Table(arguments), definition, queue_type), field) == expected


def test_what_applies_is_shown_together() -> None:
    vhost = home()
    vhost.policies.set(policy(definition={"max-length": 9, "message-ttl": 5}))
    vhost.policies.set(policy("op", OPERATOR_POLICY, definition={"max-length": 3, "expires": 7}))
    queue = vhost.declare_queue("q")
    assert effective_definition(queue) == {"expires": 7, "max-length": 3, "message-ttl": 5}
    assert queue.policy is vhost.policies.get(POLICY, "p")
    assert queue.operator_policy is vhost.policies.get(OPERATOR_POLICY, "op")
    assert effective_definition(home().declare_queue("q")) == {}

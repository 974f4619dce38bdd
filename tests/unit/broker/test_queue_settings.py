"""The table of queue settings is whole: every field of QueueSettings is read, every row with an effect is described."""

from collections import Counter
from dataclasses import fields

import pytest

from rabbitlike.broker.queue_settings.arguments import compared
from rabbitlike.broker.queue_settings.setting import Setting
from rabbitlike.broker.queue_settings.settings import QUEUE_TYPES, QueueSettings, QueueType
from rabbitlike.broker.queue_settings.table import ARGUMENTS, EXCHANGES, SETTINGS, exchange_values, read_settings
from rabbitlike.protocol.tables import Table

#: parity: what a redeclare of RabbitMQ 3.13's classic queues compares, in this order.
CLASSIC_COMPARED = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-master-locator",
    "x-queue-leader-locator",
)


def test_names_are_used_once() -> None:
    assert [name for name, count in Counter(each.name for each in SETTINGS).items() if count > 1] == []


def test_every_field_of_queue_settings_is_read_once() -> None:
    """By one reader, though several settings may be read into it."""
    read = {each.field for each in SETTINGS if each.field is not None}
    assert sorted(field.name for field in read) == sorted(field.name for field in fields(QueueSettings))


def test_without_values_the_defaults_hold() -> None:
    assert read_settings({}, "classic", 10) == QueueSettings()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_what_has_an_effect_is_described(setting: Setting) -> None:
    has_effect = setting.field is not None or setting.name == "alternate-exchange"
    assert (setting.text != "") == has_effect
    if setting.policy is not None:
        assert (setting.policy.change != "") == has_effect
    assert setting.argument is not None or setting.policy is not None


def test_a_redeclare_compares_rabbitmqs_arguments_first_and_in_its_order() -> None:
    assert compared("classic")[: len(CLASSIC_COMPARED)] == CLASSIC_COMPARED
    quorum = compared("quorum")
    assert quorum.index("x-dead-letter-exchange") < quorum.index("x-expires") < quorum.index("x-message-ttl")
    assert quorum.index("x-message-ttl") < quorum.index("x-trace")


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
def test_a_redeclare_compares_what_the_type_takes(queue_type: QueueType) -> None:
    """Each once, but for x-consumer-timeout."""
    taken = {key for key, setting in ARGUMENTS.items() if setting.is_for(queue_type)}
    assert sorted(compared(queue_type)) == sorted(taken - {"x-consumer-timeout"})


def test_an_exchange_takes_its_own_argument_over_the_policys() -> None:
    arguments = Table({"x-cache-size": 5, "x-max-length": "unchecked"})
    values = exchange_values(arguments, {"cache-size": 7, "cache-ttl": 9, "max-length": 1}, "direct")
    assert values == {"cache-size": 5, "cache-ttl": 9}
    assert exchange_values(Table(), {}, "x-message-deduplication") == {"message-deduplication": True}
    assert {each.name for each in EXCHANGES} == {
        "schema",
        "schema-action",
        "message-deduplication",
        "cache-size",
        "cache-ttl",
        "deduplication-by",
    }

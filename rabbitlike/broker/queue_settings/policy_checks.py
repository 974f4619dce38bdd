"""Checks of policy values, equivalent to RabbitMQ's validators."""

import re
from typing import Final

from rabbitlike.broker.queue_settings import weights
from rabbitlike.broker.queue_settings.setting import PolicyCheck
from rabbitlike.broker.schemas.schema import text_of
from rabbitlike.broker.terms import Json

#: Larger numbers have the same effect and would not fit into the queue's fields.
LARGEST: Final = 1 << 62


def anything(_: Json) -> bool:
    return True


def integer(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def boolean(value: Json) -> bool:
    return isinstance(value, bool)


def string(value: Json) -> bool:
    return isinstance(value, str)


def non_empty_string(value: Json) -> bool:
    return isinstance(value, str) and value != ""


def at_least(least: int, most: int | None = None) -> PolicyCheck:
    def check(value: Json) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return least <= value and (most is None or value <= most)

    return check


def one_of(*words: Json) -> PolicyCheck:
    def check(value: Json) -> bool:
        return not isinstance(value, bool) and value in words

    return check


not_negative: Final = at_least(0)
above_zero: Final = at_least(1)


def factor(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LARGEST


def max_age(value: Json) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+[YMDhms]", value) is not None


def priority_weights(value: Json) -> bool:
    return weights.read(value) is not None


def schema(value: Json) -> bool:
    try:
        return bool(text_of(value))
    except ValueError:
        return False

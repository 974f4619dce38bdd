"""Converts decimals and numeric strings to numbers, in arguments that RabbitMQ 3.x does not have.

Some clients cannot send a double, and some send every value as a string. Values are converted first, so that checks,
comparisons on redeclare and views see one form. parity: RabbitMQ's own arguments are not converted, and are refused as
in RabbitMQ.
"""

import re
from decimal import Decimal
from typing import Final

from rabbitlike.broker.queue_settings.argument_checks import INTEGERS, factor
from rabbitlike.broker.queue_settings.setting import Origin
from rabbitlike.broker.queue_settings.table import ARGUMENTS
from rabbitlike.protocol.tables import Table, Value

_NEW: Final = tuple(each for each in ARGUMENTS.values() if each.origin is not Origin.RABBITMQ)
#: Arguments of queues, exchanges and consumers: with integers only, and with any number.
WHOLE: Final = frozenset(each.key for each in _NEW if each.argument is not None and each.argument.check in INTEGERS)
NUMBERS: Final = WHOLE | {each.key for each in _NEW if each.argument is not None and each.argument.check is factor}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
LARGEST: Final = 2**63 - 1


def with_numbers(arguments: Table) -> Table:
    """The same arguments, or a copy with numbers converted. Other values stay, and their checks refuse them."""
    if NUMBERS.isdisjoint(arguments):
        return arguments
    made = arguments
    for key in NUMBERS & arguments.keys():
        number = _number(key, arguments[key])
        if number is not None:
            made = arguments.copy() if made is arguments else made
            made.put(key, number, "d" if isinstance(number, float) else "l")
    return made


def _number(key: str, value: Value) -> int | float | None:
    """The number that replaces a value. None: it is a number already, or not numeric."""
    if isinstance(value, str):
        found = Decimal(value.strip()) if _NUMBER.fullmatch(value.strip()) else None
    elif isinstance(value, float) and key in WHOLE and value.is_integer():
        found = Decimal(value)
    else:
        found = value if isinstance(value, Decimal) else None
    if found is None or abs(found) > LARGEST:
        return None
    return int(found) if found == found.to_integral_value() else float(found)

"""Writes the tables of arguments and policy keys in docs/ from the table of queue settings: `make docs`.

A page has a table between two comments, `<!-- settings: arguments -->` and `<!-- end of settings -->`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from rabbitlike.broker.queue_settings.setting import ANY_TYPE, CLASSIC, QUORUM, Policy, Setting
from rabbitlike.broker.queue_settings.table import SETTINGS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "queues.md", DOCS / "policies.md")

NO_EFFECT = "Accepted without effect."
TABLE = re.compile(r"(?<=<!-- settings: )(\w+)( -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)
TYPES = {CLASSIC: "classic queues", QUORUM: "quorum queues", ANY_TYPE: "queues"}


def written(page: str) -> str:
    """Return the page with its tables generated from the settings."""
    return TABLE.sub(lambda found: found[1] + found[2] + "\n".join(TABLES[found[1]]()) + "\n", page)


def arguments() -> Iterator[str]:
    """Yield the effect of each argument, for docs/queues.md."""
    yield from _head("argument", "for", "")
    declared = [each for each in SETTINGS if each.argument is not None]
    yield from _rows(declared, _code_of_argument, lambda each: (_takers(each), each.text or _nothing(each)))


def keys() -> Iterator[str]:
    """Yield the effect of changing each policy key, for docs/policies.md."""
    yield from _head("key", "for", "a change")
    yield from _rows(_ruled(), _code_of_key, lambda each: (_ruled_things(each), _change(each)))


def rules() -> Iterator[str]:
    """Yield the precedence of values that are set in several places, for docs/policies.md."""
    yield from _head("key", "argument and policy", "policy and operator policy")
    alike: dict[tuple[str, str], list[str]] = {}
    for each in _ruled():
        if each.text or _policy(each).operator:
            alike.setdefault(_rules(each), []).append(_code_of_key(each))
    yield from (_row(", ".join(names), *said) for said, names in alike.items())


TABLES: dict[str, Callable[[], Iterator[str]]] = {"arguments": arguments, "keys": keys, "rules": rules}


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: str) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _rows(
    settings: Iterable[Setting], name: Callable[[Setting], str], cells: Callable[[Setting], tuple[str, ...]]
) -> Iterator[str]:
    """Group neighbours with equal cells into one row; settings without effect come last."""
    ordered = sorted(settings, key=lambda each: (not each.text, cells(each) if not each.text else ()))
    yield from (_row(", ".join(map(name, alike)), *said) for said, alike in groupby(ordered, cells))


def _code_of_argument(setting: Setting) -> str:
    return f"`{setting.key}`"


def _code_of_key(setting: Setting) -> str:
    return f"`{setting.name}`"


def _takers(setting: Setting) -> str:
    """Return the queue types, and exchanges, that can be declared with it."""
    types = TYPES.get(setting.types | setting.offered, "streams")
    return f"{types}, exchanges" if setting.exchanges else types


def _nothing(setting: Setting) -> str:
    return NO_EFFECT if setting.types else "Refused, as in RabbitMQ on other queues than streams."


def _ruled() -> list[Setting]:
    return [each for each in SETTINGS if each.policy is not None]


def _policy(setting: Setting) -> Policy:
    assert setting.policy is not None
    return setting.policy


def _ruled_things(setting: Setting) -> str:
    """Return the objects that a policy with it applies to."""
    if setting.exchanges and setting.text and setting.field is None:
        return "exchanges"
    types = TYPES[ANY_TYPE] if _policy(setting).for_any_type else TYPES.get(setting.types, "streams")
    if setting.offered:
        types += f", [{TYPES[setting.offered]}](#delivery-limits-of-classic-queues)"
    return f"{types}, exchanges" if setting.exchanges else types


def _change(setting: Setting) -> str:
    if not setting.text:
        return NO_EFFECT
    change = _policy(setting).change
    return change if setting.argument is not None else f"{setting.text} {change}"


def _rules(setting: Setting) -> tuple[str, str]:
    policy = _policy(setting)
    has_argument = setting.argument is not None or setting.exchanges
    argument = policy.with_argument.text if setting.text and has_argument else ""
    if policy.over_argument:
        argument += f"; on {TYPES[policy.over_argument]} the policy"
    return argument, policy.with_operator.text if policy.operator else "refused in operator policies"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text()))

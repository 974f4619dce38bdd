"""Regular expressions that users give: in permissions, policies and filters. All of them are searched for here.

Some expressions would search some names for years, and everybody would wait: a search has its time, and an expression
that has used it up a few times is found nowhere any more. parity: searched, not anchored, as Erlang's `re:run` does.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final

log = logging.getLogger(__name__)

#: Processor time for one search. Twice: a machine may be so busy that the first went to others.
SEARCH_TIMES_S: Final = (0.01, 0.05)
#: So often an expression may take too long before it is given up.
MOST_LATE: Final = 3
#: Characters of an expression: compiling so many takes some 30 ms, and grows with them.
LONGEST: Final = 4096
#: Different expressions that are kept compiled.
KEPT: Final = 1024
#: Says yes to everything, and by far the most common.
ANYTHING: Final = ".*"


class PatternError(ValueError):
    """An expression that cannot be: what is wrong, and where."""

    def __init__(self, said: str, at: int) -> None:
        super().__init__(f"{said} at position {at}")
        self.said = said
        self.at = at


class TooSlow(Exception):
    """A search that did not come to its end."""


class Pattern:
    """One expression, ready for searching."""

    __slots__ = ("_compiled", "_late", "text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        """PatternError, if it is none, or too long."""
        if len(text) > LONGEST:
            raise PatternError("regular expression is too large", LONGEST)  # parity: PCRE's words
        self.text = text
        self._late = 0
        self._compiled = None if text == ANYTHING else _compiled(text, ignores_case)

    @property
    def is_given_up(self) -> bool:
        return self._late >= MOST_LATE

    def search(self, name: str) -> bool:
        """Is it found in a name? TooSlow, when that takes too long."""
        compiled = self._compiled
        if compiled is None:
            return True
        for time_s in SEARCH_TIMES_S:
            try:
                return compiled.search(name, timeout=time_s) is not None
            except TimeoutError:
                continue
        raise TooSlow

    def is_in(self, name: str) -> bool:
        """The same, where nobody can be told: too slow is no."""
        if self.is_given_up:
            return False
        try:
            return self.search(name)
        except TooSlow:
            self._late += 1
            log.warning(
                "the regular expression %r takes too long for %r and counts as not matching%s",
                self.text,
                name,
                ", from now on whatever the name" if self.is_given_up else "",
            )
            return False


@lru_cache(KEPT)
def _compiled(text: str, ignores_case: bool) -> Any:
    # Not with the module: most brokers have no expression but ".*", and it takes as long to load as all of the broker.
    import regex

    try:
        return regex.compile(text, regex.IGNORECASE if ignores_case else 0)
    except regex.error as problem:
        raise PatternError(problem.msg, problem.pos or 0) from None
    except (OverflowError, RecursionError, MemoryError) as problem:
        raise PatternError(str(problem) or type(problem).__name__, 0) from None

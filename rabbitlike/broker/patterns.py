"""Regular expressions from users: in permissions, policies and filters. All of their searches run here.

Some expressions would take years for some names and block the broker, so a search has a time limit, and an expression
that exceeds it a few times never matches again. parity: searched, not anchored, as Erlang's `re:run` does.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final

log = logging.getLogger(__name__)

#: Limits of processor time for one search. The second is for a busy machine, where others may have used up the first.
SEARCH_TIMES_S: Final = (0.01, 0.05)
#: Timeouts after which an expression is given up.
MOST_LATE: Final = 3
#: Longest expression in characters: compiling this many takes some 30 ms, and more characters take longer.
LONGEST: Final = 4096
#: Number of compiled expressions that are cached.
KEPT: Final = 1024
#: Matches everything; by far the most common expression.
ANYTHING: Final = ".*"


class PatternError(ValueError):
    """An invalid expression, with the fault and its position."""

    def __init__(self, said: str, at: int) -> None:
        super().__init__(f"{said} at position {at}")
        self.said = said
        self.at = at


class TooSlow(Exception):
    """A search exceeded its time limit."""


class Pattern:
    """One compiled expression."""

    __slots__ = ("_compiled", "_late", "text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        """Raises PatternError if the expression is invalid or too long."""
        if len(text) > LONGEST:
            raise PatternError("regular expression is too large", LONGEST)  # parity: PCRE's error text
        self.text = text
        self._late = 0
        self._compiled = None if text == ANYTHING else _compiled(text, ignores_case)

    @property
    def is_given_up(self) -> bool:
        return self._late >= MOST_LATE

    def search(self, name: str) -> bool:
        """Whether the expression matches in a name. Raises TooSlow at the time limit."""
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
        """`search` for callers that cannot report an error: too slow counts as no match."""
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
    # Not imported with the module: most brokers only use ".*", and importing regex takes as long as the whole broker.
    import regex

    try:
        return regex.compile(text, regex.IGNORECASE if ignores_case else 0)
    except regex.error as problem:
        raise PatternError(problem.msg, problem.pos or 0) from None
    except (OverflowError, RecursionError, MemoryError) as problem:
        raise PatternError(str(problem) or type(problem).__name__, 0) from None

"""Durations as people write them: 500ms, 30s, 1m, 2h, 1d."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS_US: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
EXAMPLES: Final = "500ms, 30s, 1m, 2h or 1d"


def parse_us(text: str) -> int:
    """Return microseconds; raise ValueError if the text is not a duration."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text.strip().lower())
    found = round(float(match[1]) * _UNITS_US[match[2]]) if match else 0
    if found <= 0:
        raise ValueError(f"'{text}' is no length of time such as {EXAMPLES}")
    return found


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse an ISO 8601 time, in UTC by default, or a duration before now."""
    try:
        return now - timedelta(microseconds=parse_us(text))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither a time such as 2026-11-16T14:00 nor how long ago, as 2h") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def shown(time_us: float | None) -> str:
    """Format a duration for tables: 850 µs, 1.2 ms, 3.4 s, 2 min. The broker's clock has ms, so 0 is < 1 ms."""
    if not time_us:
        return "–" if time_us is None else "< 1 ms"
    for unit, size, top in (("µs", 1, 1_000), ("ms", 1_000, 1_000_000), ("s", 1_000_000, 120_000_000)):
        if time_us < top:
            return f"{time_us / size:.3g} {unit}"
    return f"{time_us / 60_000_000:.3g} min"


def shown_window(window_us: int) -> str:
    """Format the length of a window: 30 s, 1 min, 1 h."""
    for unit, size in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        if window_us % size == 0:
            return f"{window_us // size} {unit}"
    return f"{window_us / 1000:g} ms"

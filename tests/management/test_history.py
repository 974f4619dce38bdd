"""The rings that history is kept in: right values, few octets."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.management.statistics.history import DETAIL_ROWS, History, LongHistory, Shape

SHAPE = Shape(("ready",), ("publish", "ack"))
WIDE = Shape(("ready",), ("publish", "ack"), "Q")


def test_step_is_the_last_change_and_only_of_the_tick_asked_for() -> None:
    history = History(SHAPE, (0, 0, 0), 10)
    history.add(1, (5, 5, 0))
    history.add(2, (3, 7, 4))
    assert history.step({2: 0}) == (2, (-2, 2, 4))
    history.add(3, (3, 7, 4))
    assert history.step({3: 0}) is None


def test_nothing_is_kept_of_what_does_not_change() -> None:
    history = History(SHAPE, (3, 1, 1), 10)
    for tick in range(100):
        history.add(tick, (3, 1, 1))
    assert history.samples([5, 50], (3, 1, 1)) == [(3, 1, 1)] * 2
    assert len(history._rows) == 0


def test_a_history_of_long_ago_is_let_go() -> None:
    history = History(SHAPE, (0, 0, 0), 10)
    history.add(1, (1, 1, 0))
    assert len(history._rows) > 0
    for tick in range(2, 12):
        history.add(tick, (1, 1, 0))
    assert len(history._rows) == 0
    assert history.samples([12], (1, 1, 0)) == [(1, 1, 0)]


def test_counts_beyond_four_octets() -> None:
    history = History(SHAPE, (0, 2**32 - 2, 0), 10)
    history.add(1, (0, 2**32 - 1, 0))
    history.add(2, (0, 2**32 + 5, 0))
    assert history.step({2: 0}) == (2, (0, 6, 0))
    now = (0, 2**32 + 7, 0)
    assert history.samples([0, 1, 2, 3], now) == [
        (0, 2**32 - 2, 0),
        (0, 2**32 - 1, 0),
        (0, 2**32 + 5, 0),
        (0, 2**32 + 5, 0),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from((0, 0, 2, 2**26))), max_size=40),
    st.sampled_from((SHAPE, WIDE)),
    st.integers(1, 8),
)
def test_samples_are_those_of_a_plain_list(steps: list[tuple[int, int, int]], shape: Shape, capacity: int) -> None:
    """As far back as the capacity reaches, whatever changed when."""
    history = History(shape, (0, 0, 0), capacity)
    seen = [(0, 0, 0)]
    for tick, (ready, publish, ack) in enumerate(steps, 1):
        last = seen[-1]
        seen.append((ready, last[1] + publish, last[2] + ack))
        history.add(tick, seen[-1])
    ticks = range(max(0, len(seen) - capacity), len(seen))
    assert history.samples(ticks, seen[-1]) == [seen[tick] for tick in ticks]
    change = tuple(now - before for now, before in zip(seen[-1], seen[-2] if len(seen) > 1 else seen[-1], strict=True))
    assert history.step({len(seen) - 1: 0}) == ((len(seen) - 1, change) if any(change) else None)


def test_a_day_in_four_levels() -> None:
    history = LongHistory(WIDE, (0, 0, 0), 5000)
    day = 86_400 // 5
    for tick in range(1, day + 1):
        history.add(tick, (tick, 2 * tick, 0))
    minute = list(range(day - 12, day + 1))
    assert history.samples(minute, ()) == [(tick, 2 * tick, 0) for tick in minute]
    hours = list(range(0, day + 1, 360))
    assert [row[0] for row in history.samples(hours, ())][2:] == hours[2:]


def test_ten_thousand_busy_objects_take_less_than_sixty_megabytes() -> None:
    shape = Shape(tuple("ab"), tuple("cdefghijkl"))
    tracemalloc.start()
    histories = [History(shape, (0,) * 12, DETAIL_ROWS) for _ in range(200)]
    for tick in range(150):
        values = (tick % 7, tick % 5, *[tick * 1000] * 6, 0, 0, 0, 0)
        for history in histories:
            history.add(tick, values)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 200 < 6000

"""Both clocks keep the same promises."""

import asyncio
import time

from rabbitlike.clock import LoopClock
from rabbitlike.testing import FakeClock


def test_timers_run_in_order_each_at_its_moment() -> None:
    clock = FakeClock(1000)
    seen: list[tuple[str, int]] = []
    clock.call_later(20, lambda: seen.append(("second", clock.now_ms())))
    clock.call_later(10, lambda: seen.append(("first", clock.now_ms())))
    clock.call_later(20, lambda: seen.append(("third", clock.now_ms())))
    clock.advance(19)
    assert seen == [("first", 1010)]
    clock.advance(1)
    assert seen == [("first", 1010), ("second", 1020), ("third", 1020)]
    assert clock.now_ms() == 1020


def test_a_timer_set_meanwhile_runs_when_due() -> None:
    clock = FakeClock(0)
    seen: list[int] = []

    def again() -> None:
        seen.append(clock.now_ms())
        clock.call_later(10, again)

    clock.call_later(10, again)
    clock.advance(35)
    assert seen == [10, 20, 30]
    assert clock.pending == 1


def test_a_cancelled_timer_never_runs() -> None:
    clock = FakeClock()
    seen: list[str] = []
    timer = clock.call_later(10, lambda: seen.append("no"))
    other = clock.call_later(5, timer.cancel)
    assert clock.pending == 2
    clock.advance(100)
    timer.cancel()
    other.cancel()
    assert seen == []
    assert clock.pending == 0


def test_what_is_overdue_runs_at_once() -> None:
    clock = FakeClock(50)
    seen: list[int] = []
    clock.call_later(-10, lambda: seen.append(clock.now_ms()))
    clock.advance(0)
    assert seen == [50]


async def test_the_loop_keeps_real_time() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    assert abs(clock.now_ms() - time.time() * 1000) < 1000
    fired = asyncio.Event()
    clock.call_later(0, fired.set)
    never = clock.call_later(20, lambda: fired.clear())
    never.cancel()
    await asyncio.wait_for(fired.wait(), 5)
    await asyncio.sleep(0.05)
    assert fired.is_set()

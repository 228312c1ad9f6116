"""The timer wheel."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.shards.timers import TICK_MS, TimerWheel


def test_a_timer_runs_once_and_not_early() -> None:
    clock, ran = FakeClock(), []
    wheel = TimerWheel(clock)
    wheel.schedule("a", 95, lambda: ran.append("a"))
    clock.advance(94)
    wheel.advance()
    assert not ran
    clock.advance(1 + TICK_MS)
    wheel.advance()
    wheel.advance()
    assert ran == ["a"]
    assert "a" not in wheel


def test_prolonging_and_shortening() -> None:
    clock, ran = FakeClock(), []
    wheel = TimerWheel(clock)
    wheel.schedule("a", 100, lambda: ran.append("a"))
    assert wheel.touch("a", 500)
    clock.advance(400)
    wheel.advance()
    assert not ran
    wheel.schedule("a", 20, lambda: ran.append("sooner"))
    clock.advance(30)
    wheel.advance()
    assert ran == ["sooner"]
    assert not wheel.touch("a", 5)


def test_a_callback_may_cancel_its_neighbour_and_schedule_itself() -> None:
    clock, ran = FakeClock(), []
    wheel = TimerWheel(clock)

    def again(name: str, other: str) -> None:
        ran.append(name)
        wheel.cancel(other)
        wheel.schedule(name, 0, lambda: again(name, other))

    wheel.schedule("a", 50, lambda: again("a", "b"))
    wheel.schedule("b", 50, lambda: again("b", "a"))
    clock.advance(100)
    wheel.advance()
    assert len(ran) == 1


def test_a_failing_callback_does_not_stop_the_others() -> None:
    clock, ran = FakeClock(), []
    wheel = TimerWheel(clock)

    def fail() -> None:
        raise ZeroDivisionError

    wheel.schedule("bad", 10, fail)
    wheel.schedule("good", 10, lambda: ran.append(1))
    clock.advance(50)
    wheel.advance()
    assert ran == [1]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 300), st.booleans()), max_size=60))
def test_every_timer_runs_within_a_tick_of_its_deadline(steps: list[tuple[str, int, bool]]) -> None:
    clock = FakeClock()
    wheel = TimerWheel(clock)
    due: dict[str, int] = {}

    def run(key: str) -> None:
        assert due.pop(key) <= clock.monotonic_ms()

    for key, delay, cancel in steps:
        if cancel:
            wheel.cancel(key)
            due.pop(key, None)
        else:
            wheel.schedule(key, delay, partial(run, key))
            due[key] = clock.monotonic_ms() + max(delay, 1)
        clock.advance(7)
        wheel.advance()
        late = clock.monotonic_ms() - TICK_MS
        assert all(deadline > late for deadline in due.values())
        assert len(wheel) == len(due)

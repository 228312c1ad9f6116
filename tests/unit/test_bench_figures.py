"""The benches measure until the figures are stable, and replace the rows of README's table that have the same name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import count

import pytest

from benches.cluster.rest import WatchedClient, until_at_rest
from benches.compare.cases import CASES
from benches.compare.front_page import PEERS, README, ROWS, replaced
from benches.warm import Warmth, until_steady
from pybroker.broker.controller.internal_events import ElectAnyLeaders
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


def figures(*values: float) -> Iterator[float]:
    """Return these figures, then the last one for ever."""
    yield from values
    while True:
        yield values[-1]


def test_a_jvm_is_loaded_until_it_stands_still() -> None:
    """The last three figures differ by at most 5 %: a slower decrease does not count as stable."""
    falling = figures(166, 120, 90, 70, 60, 55, 52.4, 51, 50.4, 50.1)
    assert until_steady(lambda: next(falling)) == Warmth(9, pytest.approx(52.4 / 50.4 - 1))
    native = figures(7.0, 7.1, 7.0)
    assert str(until_steady(lambda: next(native))) == "3 runs, 1%"


def test_what_never_stands_still_is_taken_as_it_is_and_told() -> None:
    """The bench stops waiting after five minutes."""
    restless, clock = figures(*(50 + 10 * (number % 2) for number in range(1000))), count(0.0, 30.0)
    warmth = until_steady(lambda: next(restless), clock=lambda: next(clock))
    assert (warmth.runs, warmth.steady) == (11, False)
    assert str(warmth) == "11 runs, 20% (NOT STEADY)"


def test_a_row_of_the_front_page_is_of_a_case_and_stands_there_once() -> None:
    """Rows that were not measured stay unchanged."""
    shown = {case.name: case for case in CASES}
    for row in ROWS:
        assert {name for name, _, _ in row.figures} <= set(shown[row.case].shown()), row.label
        assert set(shown[row.case].peers) & set(PEERS)
    page = README.read_text()
    assert replaced(page, lambda case, peer, figure: None) == page
    measured = {("Metadata of 1,000 topics", "kafka"): 5000.4, ("Metadata of 1,000 topics", "pybroker"): 90.04}
    changed = replaced(page, lambda case, peer, figure: measured.get((case, peer)))
    (new,) = set(changed.splitlines()) - set(page.splitlines())
    assert new == "| Metadata of 1,000 topics, CPU | 5,000 µs |  | 90 µs |"
    with pytest.raises(ValueError, match="has 0 rows"):
        replaced("", lambda case, peer, figure: None)


class Silent:
    """Channels over which no message is sent."""

    moved = 0.0

    async def drain(self) -> None:
        """Return at once: nothing waits for a response."""


async def test_a_row_is_open_while_the_controller_works_however_quiet_it_is() -> None:
    """The controller works on a large image on a thread, and sends nothing meanwhile."""
    client = WatchedClient(1)
    answered = client.open(ElectAnyLeaders())
    assert answered is not None
    assert not client.rests, "an event waits"
    submission = await client.take()
    resting = asyncio.create_task(until_at_rest(client, Silent(), quiet_s=0.01))
    await asyncio.sleep(0.3)
    assert not resting.done(), "an event is worked on"
    before = time.perf_counter()
    submission.fail(KafkaError(ErrorCode.NOT_CONTROLLER, ""))
    next_one = asyncio.create_task(client.take())
    ended = await resting
    assert before <= ended <= time.perf_counter()
    next_one.cancel()
    assert isinstance(answered.exception(), KafkaError)

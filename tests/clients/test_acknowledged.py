"""The checker of the kill tests finds each kind of violation: otherwise its tests would prove nothing."""

from __future__ import annotations

from tests.clients.acknowledged import History, violations
from tests.clients.api import Received


def _row(offset: int, number: int) -> Received:
    return Received(0, offset, None, f"w:{number}:")


RIGHT = [_row(0, 0), _row(1, 1), _row(2, 2)]
TOLD = {(0, 0): 0, (0, 1): 1, (0, 2): 2}


def _found(rows: list[Received], told: dict[tuple[int, int], int] | None = None) -> str:
    return "; ".join(violations(rows, [History("w", "t", TOLD if told is None else told)]))


def test_a_whole_log_is_right() -> None:
    """The log may have a record that was never acknowledged: its producer does not know whether it arrived."""
    assert _found(RIGHT) == ""
    assert _found([*RIGHT, _row(3, 3)]) == ""


def test_each_broken_promise_is_named() -> None:
    """The violations: missing, duplicated, reordered and moved records, and a gap in the offsets."""
    assert "acknowledged w 0 2 at 2, found at None" in _found(RIGHT[:2])
    assert "doubled" in _found([*RIGHT, _row(3, 1)])
    assert "reordered" in _found([_row(0, 0), _row(1, 2), _row(2, 1)], {})
    assert "found at 2" in _found([_row(0, 0), _row(1, 7), _row(2, 1)], {(0, 1): 1})
    assert "gap" in _found([RIGHT[0], _row(2, 2)], {})


def test_a_refusal_is_a_violation_too() -> None:
    """A broker that returns never refuses an idempotent producer that waits long enough."""
    history = History("w", "t", {})
    history.failed["_MSG_TIMED_OUT"] += 1
    assert violations([], [history]) == ["w was refused records: {'_MSG_TIMED_OUT': 1}"]

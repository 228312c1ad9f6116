"""The numbers that stand for an ingest's state on the wire."""

from __future__ import annotations

from pybroker.metadata.ingest_records import COMMITTED, COMMITTING, OPEN

ABSENT = 3

_WIRE = {OPEN: 0, COMMITTING: 1, COMMITTED: 2}


def wire_state(state: str | None) -> int:
    """None: there is no such ingest."""
    return ABSENT if state is None else _WIRE[state]

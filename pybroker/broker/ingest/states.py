"""Ingest states in the wire protocol, and the error for lost records."""

from __future__ import annotations

from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, OPEN, IngestRecord
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NAMED_MAX = 10
"""Maximum number of partitions in an error message."""

ABSENT = 3

_WIRE = {OPEN: 0, COMMITTING: 1, COMMITTED: 2}


def wire_state(state: str | None) -> int:
    """Return the wire code of a state; None: there is no such ingest."""
    return ABSENT if state is None else _WIRE[state]


def lost_error(record: IngestRecord) -> KafkaError | None:
    """Return LOG_DIR_NOT_FOUND for a committed ingest that has lost records; None for others."""
    if record.state != COMMITTED or not record.lost:
        return None
    return KafkaError(
        ErrorCode.LOG_DIR_NOT_FOUND,
        "The ingest is committed, but every replica that had staged its records for partitions "
        f"{sorted(record.lost)[:NAMED_MAX]} has lost them (their disks are empty). Those records are lost.",
    )

"""Audit records of offline commands that changed a cluster: `/admin/audit/op-[number]`. A single multi writes the
change and its record, so there is never one without the other."""

from __future__ import annotations

import getpass
import os

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import Create
from pybroker.wall_clock import wall_ms


def audit_record(command: str, **facts: object) -> Create:
    """Return the operation that stores an audit record: the command, the user, the time, and the change."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # The user id has no name.
        user = str(os.getuid())
    content = {"version": 1, "command": command, "user": user, "time_ms": wall_ms(), **facts}
    return Create(f"{znodes.AUDIT}/op-", msgspec.json.encode(content), sequential=True)

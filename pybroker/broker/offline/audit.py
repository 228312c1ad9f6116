"""The record of offline commands that changed what a cluster is: `/admin/audit/op-[number]`, in the multi that made the
change, so that neither is there without the other.
"""

from __future__ import annotations

import getpass
import os
import time

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.store import Create


def audit_record(command: str, **facts: object) -> Create:
    """The operation that records `command`, who ran it, when, and what it did."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    content = {"version": 1, "command": command, "user": user, "time_ms": int(time.time() * 1000), **facts}
    return Create(f"{znodes.AUDIT}/op-", msgspec.json.encode(content), sequential=True)

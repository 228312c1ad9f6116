"""Detects an unclean stop. Native code detects it as well when it opens the directories, and recovers; this line
explains to the operator why the start takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pybroker.broker.lifecycle.startup.ownership import META_PROPERTIES

MARKER = ".kafka_cleanshutdown"


def unclean(log_dirs: Sequence[str]) -> list[str]:
    """Return a sentence for each directory that no clean stop closed (a crash, a power cut)."""
    return [
        f"{directory} was not closed by a clean stop; checking its logs from their recovery points"
        for directory in map(Path, log_dirs)
        if (directory / META_PROPERTIES).exists() and not (directory / MARKER).exists()
    ]

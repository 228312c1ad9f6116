"""Whether the data was left in order. Native code finds out for itself when it opens the directories, and recovers;
this is the line that tells the operator why a start takes longer, and that something ended the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pybroker.broker.lifecycle.startup.ownership import META_PROPERTIES

MARKER = ".kafka_cleanshutdown"


def unclean(log_dirs: Sequence[str]) -> list[str]:
    """A sentence for each directory that was in use and not closed by a clean stop (a crash, a power cut)."""
    return [
        f"{directory} was not closed by a clean stop; its logs are checked from their recovery points on"
        for directory in map(Path, log_dirs)
        if (directory / META_PROPERTIES).exists() and not (directory / MARKER).exists()
    ]

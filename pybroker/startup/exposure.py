"""Places that every user of the machine may write to: who can change the settings or the data is the broker.

Asked once at the start, for a warning: some containers and test machines are set up so on purpose.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path


def exposed(settings_file: str | None, log_dirs: Sequence[str]) -> list[str]:
    """A sentence for each of these that is there and writable for everybody."""
    places = [] if settings_file is None else [(Path(settings_file), "settings", "o-w")]
    places += [(Path(directory), "data directory", "o-rwx") for directory in log_dirs]
    return [
        f"the {what} {place} can be changed by every user of this machine; chmod {change} {place}"
        for place, what, change in places
        if _is_writable_for_all(place)
    ]


def _is_writable_for_all(place: Path) -> bool:
    """False for what cannot be looked at: whoever opens it next names the trouble."""
    try:
        return bool(place.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False

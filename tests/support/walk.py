"""Files in folders that a broker changes at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files(root: Path) -> Iterator[Path]:
    """Yield all files below a folder. Unlike `rglob`, skip folders that are moved or removed during the walk."""
    return (Path(folder, name) for folder, _, names in os.walk(root) for name in names)

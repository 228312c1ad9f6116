"""Files in folders that a broker changes meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files(root: Path) -> Iterator[Path]:
    """All under a folder. Not `rglob`: a folder that is moved or removed meanwhile is passed over."""
    return (Path(folder, name) for folder, _, names in os.walk(root) for name in names)

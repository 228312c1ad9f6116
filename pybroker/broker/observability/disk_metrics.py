"""The room of log directories, as metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Literal

from pybroker.broker.observability.metrics import Metric
from pybroker.native import LogDirRoom

_FAMILIES: tuple[tuple[str, str, Literal["gauge", "counter"], str], ...] = (
    (
        "pybroker_log_dir_usable_bytes",
        "usable_bytes",
        "gauge",
        "Bytes that the broker can still write to the disk of a log directory.",
    ),
    ("pybroker_log_dir_total_bytes", "total_bytes", "gauge", "Size of the disk of a log directory."),
    (
        "pybroker_log_dir_full_refusals_total",
        "full_refusals",
        "counter",
        "Writes that the disk of a log directory has refused since the start because it is full.",
    ),
)


def disk_metrics(rooms: Iterable[LogDirRoom]) -> list[Metric]:
    """A series for each log directory whose file system tells its size."""
    known = [room for room in rooms if room.total_bytes >= 0]
    return [
        Metric(name, text, partial(getattr, room, field), {"log_dir": room.path}, kind)
        for name, field, kind, text in _FAMILIES
        for room in known
    ]

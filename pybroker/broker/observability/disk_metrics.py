"""Sizes and free space of log directories as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Literal

from pybroker.broker.admin.disk_room import Room
from pybroker.broker.observability.metric import Metric

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
        "Writes that failed since the start because the disk of a log directory is full.",
    ),
)


def disk_metrics(rooms: Iterable[Room], deleted: Mapping[str, int]) -> list[Metric]:
    """Return the series of each log directory. If the file system does not report the size of a disk, the series about
    that disk are missing. `deleted` has the bytes of deleted topics by log directory.
    """
    online = list(rooms)
    known = [room for room in online if room.total_bytes >= 0]
    of_disks = [
        Metric(name, text, partial(getattr, room, field), {"log_dir": room.path}, kind)
        for name, field, kind, text in _FAMILIES
        for room in known
    ]
    return of_disks + [
        Metric(
            "pybroker_log_dir_deleted_bytes",
            "Bytes of deleted topics in a log directory that can still be undeleted.",
            partial(_of, deleted, room.path),
            {"log_dir": room.path},
        )
        for room in online
    ]


def _of(deleted: Mapping[str, int], log_dir: str) -> int:
    return deleted.get(log_dir, 0)

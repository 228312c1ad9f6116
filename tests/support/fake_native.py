"""A `NativeBroker` without sockets and files, for tests of the control plane: keeps what it was ordered and can be
told to fail.

The real order and delta classes hide their fields, so `use_plain_orders` puts plain records in their place in the
modules that make them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pybroker.native import Uuid
from tests.support.authorizers import NoRules


@dataclass
class FakePartitionOrder:
    topic_id: Uuid
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    replicas: Sequence[int]
    is_new: bool
    config: dict[str, str]
    start_offset: int = 0


@dataclass
class FakeStopOrder:
    topic_id: Uuid
    partition: int
    leader_epoch: int
    delete: bool


@dataclass
class FakeMetadataDelta:
    brokers: Any = None
    controller_id: int | None = None
    topics_changed: Sequence[Any] = ()
    topics_removed: Sequence[Uuid] = ()


@dataclass
class FakeLocalPartition:
    log_dir: str
    directory: str
    topic: str | None
    partition: int
    topic_id: Uuid | None
    problem: str | None = None


@dataclass
class FakeStaged:
    path: str
    log_dir: str
    topic_id: Uuid
    partition: int
    purging: bool = False


@dataclass
class FakeLogDir:
    path: str
    error_code: int


@dataclass
class FakeRequest:
    """A request as `drain` gives it; `response` is what was replied."""

    api_key: int
    message: object
    api_version: int = 0
    correlation_id: int = 1
    client_id: str | None = "test"
    principal: str = "User:ANONYMOUS"
    listener: str = "PLAINTEXT"
    client_host: str = "127.0.0.1"
    connection_id: int = 1
    sasl_authenticated: bool = False
    cancelled: bool = False
    response: Any = None
    closed: bool = False
    replies: int = 0

    def reply(self, message: object) -> None:
        self.response = message
        self.replies += 1

    def close(self) -> None:
        self.closed = True


class FakeIngests:
    """Staged ingests that nobody begins."""

    def collect(self, keep: Sequence[tuple[Uuid, str]]) -> int:
        return len(keep) * 0

    def list(self) -> list[object]:
        return []


@dataclass
class FakeNative(NoRules):
    """What the control plane sees of the native core."""

    disk: dict[str, FakeLocalPartition] = field(default_factory=dict)
    """Partition directories by path: survives a "restart" when it is handed to the next FakeNative."""
    staged: dict[str, FakeStaged] = field(default_factory=dict)
    hosted: dict[tuple[Uuid, int], FakePartitionOrder] = field(default_factory=dict)
    deltas: list[FakeMetadataDelta] = field(default_factory=list)
    configs: dict[Uuid, Mapping[str, str]] = field(default_factory=dict)
    applies: list[list[FakePartitionOrder]] = field(default_factory=list)
    stops: list[FakeStopOrder] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    failing: dict[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) → error code of apply_partitions."""
    failing_stops: dict[tuple[Uuid, int], int] = field(default_factory=dict)
    """(topic id, partition) → error code of stop_partitions."""
    failing_adoptions: dict[str, str] = field(default_factory=dict)
    """Name of a directory → why it takes no id."""
    offline: bool = False
    """Whether a second log directory is offline."""
    calls: list[str] = field(default_factory=list)
    queue: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)

    def publish_acls(self, **changes: Any) -> int:
        self.calls.append("publish_acls")
        return 1

    def start_log_dirs(self) -> list[FakeLocalPartition]:
        self.calls.append("start_log_dirs")
        return list(self.disk.values())

    def open_listeners(self, listeners: list[tuple[str, str, int, str]]) -> list[tuple[str, str, int]]:
        self.calls.append("open_listeners")
        return [(name, host, port or 19092) for name, host, port, _ in listeners]

    def start_accepting(self) -> None:
        self.calls.append("start_accepting")

    def wake_fd(self) -> int:
        return self._read_fd

    def drain(self, max_items: int = 256) -> list[Any]:
        if self.queue:
            items, self.queue = self.queue[:max_items], self.queue[max_items:]
        else:
            items = []
        if not self.queue:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read_fd, 4096)
        return items

    def push(self, *items: Any) -> None:
        self.queue += items
        os.write(self._write_fd, b"x")

    def apply_partitions(self, orders: Sequence[FakePartitionOrder]) -> list[int]:
        self.applies.append(list(orders))
        codes = []
        for order in orders:
            code = self.failing.get((order.topic, order.partition), 0)
            if not code:
                path = f"/data/{order.topic}-{order.partition}"
                there = self.disk.get(path)
                if there is not None and there.topic_id != order.topic_id:
                    code = 103
                else:
                    self.disk[path] = FakeLocalPartition("/data", path, order.topic, order.partition, order.topic_id)
                    self.hosted[order.topic_id, order.partition] = order
            codes.append(code)
        return codes

    def adopt_partitions(self, directories: Sequence[tuple[str, Uuid, int]]) -> list[str | None]:
        problems: list[str | None] = []
        for path, topic_id, partition in directories:
            problems.append(self.failing_adoptions.get(Path(path).name))
            if problems[-1] is not None:
                continue
            there = self.disk.get(path)
            topic = there.topic if there is not None else None
            self.disk[path] = FakeLocalPartition("/data", path, topic, partition, topic_id)
            if Path(path).is_dir():
                (Path(path) / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        return problems

    def set_aside(self, directories: Sequence[str]) -> None:
        self.calls.append("set_aside")

    def stop_partitions(self, orders: Sequence[FakeStopOrder]) -> list[int]:
        for order in orders:
            self.stops.append(order)
            if (order.topic_id, order.partition) in self.failing_stops:
                continue
            self.hosted.pop((order.topic_id, order.partition), None)
            if order.delete:
                for path, there in list(self.disk.items()):
                    if (there.topic_id, there.partition) == (order.topic_id, order.partition):
                        self.stage_directory(path)
        return [self.failing_stops.get((order.topic_id, order.partition), 0) for order in orders]

    def stage_directory(self, directory: str) -> str:
        there = self.disk.pop(directory)
        assert there.topic_id is not None
        path = f"/data/deleting/{there.topic_id.hex}_{there.partition}"
        self.staged[path] = FakeStaged(path, "/data", there.topic_id, there.partition)
        return path

    def ingests(self) -> FakeIngests:
        return FakeIngests()

    def restore_partitions(self, topic_id: Uuid, topic: str, partitions: Sequence[int]) -> list[int]:
        codes = []
        for partition in partitions:
            path = f"/data/{topic}-{partition}"
            if self.staged.pop(f"/data/deleting/{topic_id.hex}_{partition}", None) is not None:
                self.disk[path] = FakeLocalPartition("/data", path, topic, partition, topic_id)
            there = self.disk.get(path)
            codes.append(0 if there is not None and there.topic_id == topic_id else 3)
        return codes

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> list[tuple[int, int, int]]:
        self.calls.append(f"set_fenced {fenced}")
        return [(partition, 0, 0) for hosted, partition in self.hosted if hosted == topic_id]

    def partition_offsets(self, topic_id: Uuid, partition: int) -> None:
        return None

    def publish_metadata(self, delta: FakeMetadataDelta) -> int:
        self.deltas.append(delta)
        return len(self.deltas)

    def set_topic_config(self, topic_id: Uuid, config: Mapping[str, str]) -> None:
        self.configs[topic_id] = config

    def set_broker_settings(self, settings: Mapping[str, Any]) -> None:
        self.calls.append("set_broker_settings")

    def describe_log_dirs(self) -> list[FakeLogDir]:
        return [FakeLogDir("/data", 0), *([FakeLogDir("/data2", 56)] if self.offline else [])]

    def staged_deletions(self) -> list[FakeStaged]:
        return list(self.staged.values())

    def purge(self, path: str) -> int:
        del self.staged[path]
        self.purged.append(path)
        return 1

    def stop_accepting(self) -> None:
        self.calls.append("stop_accepting")

    def shutdown(self, timeout_ms: int) -> None:
        self.calls.append("shutdown")

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


def use_plain_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the control plane make records that FakeNative can look into."""
    monkeypatch.setattr("pybroker.replicas.manager.PartitionOrder", FakePartitionOrder)
    monkeypatch.setattr("pybroker.replicas.manager.StopOrder", FakeStopOrder)
    monkeypatch.setattr("pybroker.replicas.strays.StopOrder", FakeStopOrder)
    monkeypatch.setattr("pybroker.metadata.cache.MetadataDelta", FakeMetadataDelta)
    monkeypatch.setattr("pybroker.dispatch.Request", FakeRequest)

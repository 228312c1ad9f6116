"""A `NativeBroker` without sockets and files, for tests of the control plane. It records the calls, and can be made to
fail."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pybroker.native import (
    AdoptedDirectory,
    Endpoint,
    ListenerConfig,
    MetadataDelta,
    PartitionEnds,
    PartitionOrder,
    StopOrder,
    Uuid,
)
from tests.support.authorizers import NoRules


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
class FakeAnswer:
    """A cached response of the data threads. `heard_ms_ago`: time since its last use."""

    group: str
    heard_ms_ago: int = 0
    invalidated: bool = False

    def invalidate(self) -> None:
        self.invalidated = True

    def idle_ms(self) -> int:
        return self.heard_ms_ago


@dataclass
class FakeRequest:
    """A request as `drain` returns it. `response`: the response that was sent."""

    api_key: int
    message: object
    api_version: int = 0
    correlation_id: int = 1
    client_id: str | None = "test"
    principal: str = "User:ANONYMOUS"
    listener: str = "PLAINTEXT"
    client_host: str = "127.0.0.1"
    client_port: int = 40_000
    client_software: tuple[str, str] = ("", "")
    connection_id: int = 1
    sasl_authenticated: bool = False
    by_token: bool = False
    timed: bool = False
    of_broker: bool = False
    cancelled: bool = False
    response: Any = None
    closed: bool = False
    replies: int = 0
    parked: bool = False
    answer: FakeAnswer | None = None
    """The cached response for the request; None: there is none."""
    bounds: tuple[object, ...] = ()
    """The arguments with which the commits were delegated."""
    elements: int = 0

    def waits(self) -> None:
        self.parked = True

    def reply(self, message: object, elements_max: int = 0) -> bool:
        self.response = message
        self.replies += 1
        return True

    def reply_cached(self, message: object, group: str) -> FakeAnswer:
        self.reply(message)
        self.answer = FakeAnswer(group)
        return self.answer

    def reply_commits(self, message: object, *bounds: object) -> FakeAnswer:
        self.reply(message)
        self.bounds = bounds
        self.answer = FakeAnswer("")
        return self.answer

    def close(self) -> None:
        self.closed = True


class FakeIngests:
    """Staged ingests, of which there are none."""

    def collect(self, keep: Sequence[tuple[Uuid, str]]) -> int:
        return len(keep) * 0

    def list(self) -> list[object]:
        return []


class FakeAuthorizer(NoRules):
    """Stores ACL entries; permits everything."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def publish(self, **changes: Any) -> int:
        self._calls.append("publish_acls")
        return 1


class FakeQuotas:
    """Quotas that limit no client."""

    def publish(self, *, clients: Sequence[object], addresses: Sequence[object], full: bool) -> None:
        del clients, addresses, full

    def bounds_mutations(self, user: str, client_id: str) -> bool:
        del user, client_id
        return False

    def mutate(self, user: str, client_id: str, partitions: float, *, strict: bool) -> tuple[bool, int]:
        del user, client_id, partitions, strict
        return True, 0


@dataclass
class FakeNative:
    """The native core as the control plane sees it."""

    disk: dict[str, FakeLocalPartition] = field(default_factory=dict)
    """Partition directories by path. Pass it to the next FakeNative to simulate a restart."""
    staged: dict[str, FakeStaged] = field(default_factory=dict)
    hosted: dict[tuple[Uuid, int], PartitionOrder] = field(default_factory=dict)
    deltas: list[MetadataDelta] = field(default_factory=list)
    configs: dict[Uuid, Mapping[str, str]] = field(default_factory=dict)
    applies: list[list[PartitionOrder]] = field(default_factory=list)
    stops: list[StopOrder] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    failing: dict[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) → error code for `partitions.apply`."""
    failing_stops: dict[tuple[Uuid, int], int] = field(default_factory=dict)
    """(topic id, partition) → error code for `partitions.stop`."""
    failing_adoptions: dict[str, str] = field(default_factory=dict)
    """Directory name → why it accepts no topic id."""
    offline: bool = False
    """Whether a second log directory is offline."""
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log_dirs = FakeLogDirs(self)
        self.partitions = FakePartitions(self)
        self.ingests = FakeIngests()
        self.metadata = FakeMetadata(self)
        self.quotas = FakeQuotas()
        self.authorizer = FakeAuthorizer(self.calls)
        self.listeners = FakeListeners(self.calls)
        self.control_queue = FakeControlQueue()

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        self.calls.append("set_settings")

    def shutdown(self, timeout_ms: int) -> None:
        self.calls.append("shutdown")

    def push(self, *items: Any) -> None:
        self.control_queue.push(*items)

    def close(self) -> None:
        self.control_queue.close()


class FakeLogDirs:
    """Log directories whose content is in `FakeNative.disk` and `FakeNative.staged`."""

    def __init__(self, native: FakeNative) -> None:
        self._native = native

    def start(self) -> list[FakeLocalPartition]:
        self._native.calls.append("start_log_dirs")
        return list(self._native.disk.values())

    def rooms(self) -> list[object]:
        """Return nothing: disks have no size here."""
        return []

    def describe(self) -> list[FakeLogDir]:
        return [FakeLogDir("/data", 0), *([FakeLogDir("/data2", 56)] if self._native.offline else [])]

    def adopt(self, directories: Sequence[AdoptedDirectory]) -> list[str | None]:
        problems: list[str | None] = []
        for one in directories:
            problems.append(self._native.failing_adoptions.get(one.directory.name))
            if problems[-1] is not None:
                continue
            there = self._native.disk.get(path := str(one.directory))
            topic = there.topic if there is not None else None
            self._native.disk[path] = FakeLocalPartition("/data", path, topic, one.partition, one.topic_id)
            if one.directory.is_dir():
                (one.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {one.topic_id}")
        return problems

    def set_aside(self, directories: Sequence[str]) -> None:
        self._native.calls.append("set_aside")

    def stage(self, directory: str) -> str:
        there = self._native.disk.pop(directory)
        assert there.topic_id is not None
        path = f"/data/deleting/{there.topic_id.hex}_{there.partition}"
        self._native.staged[path] = FakeStaged(path, "/data", there.topic_id, there.partition)
        return path

    def staged(self) -> list[FakeStaged]:
        return list(self._native.staged.values())

    def purge(self, path: str) -> int:
        del self._native.staged[path]
        self._native.purged.append(path)
        return 1


class FakePartitions:
    """Partitions without logs."""

    def __init__(self, native: FakeNative) -> None:
        self._native = native

    def apply(self, orders: Sequence[PartitionOrder]) -> list[int]:
        native = self._native
        native.applies.append(list(orders))
        codes = []
        for order in orders:
            code = native.failing.get((order.topic, order.partition), 0)
            if not code:
                path = f"/data/{order.topic}-{order.partition}"
                there = native.disk.get(path)
                if there is not None and there.topic_id != order.topic_id:
                    code = 103
                else:
                    native.disk[path] = FakeLocalPartition("/data", path, order.topic, order.partition, order.topic_id)
                    native.hosted[order.topic_id, order.partition] = order
            codes.append(code)
        return codes

    def stop(self, orders: Sequence[StopOrder]) -> list[int]:
        native = self._native
        for order in orders:
            native.stops.append(order)
            if (order.topic_id, order.partition) in native.failing_stops:
                continue
            native.hosted.pop((order.topic_id, order.partition), None)
            if order.delete:
                for path, there in list(native.disk.items()):
                    if (there.topic_id, there.partition) == (order.topic_id, order.partition):
                        native.log_dirs.stage(path)
        return [native.failing_stops.get((order.topic_id, order.partition), 0) for order in orders]

    def restore(self, topic_id: Uuid, topic: str, partitions: Sequence[int]) -> list[int]:
        native = self._native
        codes = []
        for partition in partitions:
            path = f"/data/{topic}-{partition}"
            if native.staged.pop(f"/data/deleting/{topic_id.hex}_{partition}", None) is not None:
                native.disk[path] = FakeLocalPartition("/data", path, topic, partition, topic_id)
            there = native.disk.get(path)
            codes.append(0 if there is not None and there.topic_id == topic_id else 3)
        return codes

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> list[PartitionEnds]:
        self._native.calls.append(f"set_fenced {fenced}")
        return [PartitionEnds(partition, 0, 0) for hosted, partition in list(self._native.hosted) if hosted == topic_id]

    def set_topic_config(self, topic_id: Uuid, config: Mapping[str, str]) -> None:
        self._native.configs[topic_id] = config

    def offsets(self, topic_id: Uuid, partition: int) -> None:
        return None


class NoReports:
    """Ignores reports about data that waits for an operator."""

    def report(self, topics: Iterable[tuple[Uuid, str]]) -> None: ...

    async def stop(self) -> None: ...


class FakeMetadata:
    """Stores the published metadata."""

    def __init__(self, native: FakeNative) -> None:
        self._native = native

    def publish(self, delta: MetadataDelta) -> int:
        self._native.deltas.append(delta)
        return len(self._native.deltas)

    def set_features(self, epoch: int, levels: Mapping[str, int]) -> None:
        """Do nothing: no test uses the features."""


class FakeListeners:
    """Listeners without sockets."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def open(self, listeners: Sequence[ListenerConfig]) -> list[Endpoint]:
        self._calls.append("open_listeners")
        return [Endpoint(one.name, one.host, one.port or 19092) for one in listeners]

    def start_accepting_brokers(self) -> None:
        self._calls.append("start_accepting_brokers")

    def start_accepting(self) -> None:
        self._calls.append("start_accepting")

    def stop_accepting(self) -> None:
        self._calls.append("stop_accepting")


class FakeControlQueue:
    """Returns the requests that a test has pushed."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)

    def take_answers_back(self) -> None:
        """Do nothing: there are no cached responses."""

    def admit_line_about_client(self) -> int | None:
        return 0

    def wake_fd(self) -> int:
        return self._read_fd

    def drain(self, max_items: int = 256) -> list[Any]:
        items, self._items = self._items[:max_items], self._items[max_items:]
        if not self._items:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read_fd, 4096)
        return items

    def push(self, *items: Any) -> None:
        self._items += items
        os.write(self._write_fd, b"x")

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)


def use_fake_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the dispatcher accept a FakeRequest as a request."""
    monkeypatch.setattr("pybroker.broker.dispatch.Request", FakeRequest)

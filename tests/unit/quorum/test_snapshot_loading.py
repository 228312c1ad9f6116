"""A snapshot of the metadata log is loaded while the event loop serves clients."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from pybroker.broker.cluster.events import CreateTopics, NewTopic
from pybroker.broker.controller.decision import rule_of
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ImageDelta
from pybroker.broker.metadata.records.snapshots import image_from_records, image_to_records
from pybroker.broker.quorum import loader, quorum_node
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.quorum_log import SnapshotPosition
from pybroker.broker.quorum.quorum_node import QuorumNode
from tests.unit.controller.test_decisions import ENDPOINT

TOPICS = 2_000
WAIT_S = 60


def image() -> ClusterImage:
    """Return an image whose snapshot is so large that a thread reads it."""
    brokers = ClusterImage.initial(3).apply(ImageDelta(brokers=(BrokerImage(1, 1, (ENDPOINT,), None),)))
    event = CreateTopics(tuple(NewTopic(f"t{number}", 1, 1, None, {}) for number in range(TOPICS)), False, 1, 1)
    return brokers.apply(rule_of(event).decide(brokers, event).delta)


async def test_the_loop_runs_while_a_snapshot_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_ran = threading.Event()

    def read(pieces: Iterable[Sequence[bytes]]) -> ClusterImage:
        assert loop_ran.wait(WAIT_S), "the loop waits for the snapshot"
        return image_from_records(pieces)

    monkeypatch.setattr(loader, "image_from_records", read)
    written = image()
    expected = msgspec.structs.replace(written, controller_epoch=4, offset=50)
    problems: list[Exception] = []
    loaded = MetadataLoader(problems.append)
    asyncio.get_running_loop().call_soon(loop_ran.set)
    await loaded.snapshot(SnapshotPosition(50, 4), list(image_to_records(written)))
    assert (loaded.image, problems) == (expected, [])


class Message(msgspec.Struct):
    """An output of the native node."""

    name: str


class Batch(Message):
    """A committed batch."""


class Request(Message):
    """A request to another node."""


class End(Message):
    """The end of a snapshot."""


class Native:
    """A native node with outputs of the test."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.outputs: list[Message] = []

    def fileno(self) -> int:
        return self.read_end

    def take(self) -> list[Message]:
        outputs, self.outputs = self.outputs, []
        return outputs

    def stop(self) -> None:
        self.outputs.append(Batch("last"))


class Listener:
    """Records everything that it gets."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.may_load = asyncio.Event()

    def committed(self, batch: Message) -> None:
        self.got.append(batch.name)

    async def snapshot_ended(self, end: Message) -> None:
        await self.may_load.wait()
        self.got.append(end.name)


async def test_records_are_delivered_in_turns_and_messages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_node, "TURN_S", 0)
    for name, kind in (("CommittedRecords", Batch), ("QuorumRequest", Request), ("SnapshotEnd", End)):
        monkeypatch.setattr(quorum_node, name, kind)
    native, listener, sent = Native(), Listener(), []
    given: Any = (native, listener, lambda request: sent.append(request.name), pytest.fail, asyncio.get_running_loop())
    node = QuorumNode(*given)
    native.outputs = [Batch("a"), Batch("b"), End("snapshot"), Batch("c"), Request("fetch")]
    node.start()
    turns = []
    while "b" not in listener.got:
        await asyncio.sleep(0)
        turns.append(list(listener.got))
    assert ["a"] in turns, "other work of the loop runs between two batches"
    assert sent == ["fetch"]
    await asyncio.sleep(0.01)
    assert listener.got == ["a", "b"], "the snapshot is not loaded"
    stopping = asyncio.ensure_future(node.stop())
    await asyncio.sleep(0.01)
    listener.may_load.set()
    await stopping
    assert listener.got == ["a", "b", "snapshot", "c", "last"]
    os.close(native.read_end)
    os.close(native.write_end)

"""A history request searches the disks only for users who may see the topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.broker.admin.history import HistoryAdmin
from pybroker.broker.admin.staged_replicas import StagedReplicas
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.errors import KafkaError
from pybroker.native import Uuid


class World:
    """Two staged topics. Records which directories were measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids = {name: Uuid.random() for name in ("mine", "theirs")}
        records = [
            DeletionRecord(name, topic_id, "staged", 1, 2, "User:a", 3, {0: (1,)}, {}, 0)
            for name, topic_id in self.ids.items()
        ]
        self.image = SimpleNamespace(
            deletions={record.topic_id: record for record in records}, names={}, topics={}, damaged={}, brokers={}
        )
        self.measured: list[str] = []
        monkeypatch.setattr("pybroker.broker.admin.staged_replicas.directory_bytes", self._size)
        view = cast(Any, SimpleNamespace(image=self.image))
        native = cast(Any, SimpleNamespace(log_dirs=SimpleNamespace(staged=self._staged)))
        waiting = cast(Any, SimpleNamespace(remaining_ms=lambda _: 5, is_removing=lambda _: False))
        self.staged = StagedReplicas(1, view, native, waiting, None)
        self.history = HistoryAdmin(view, native, self.staged)

    def _staged(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(topic_id=topic_id, partition=0, path=name, log_dir="/data", purging=False)
            for name, topic_id in self.ids.items()
        ]

    def _size(self, path: str) -> int:
        self.measured.append(path)
        return 7


async def test_without_rights_no_disk_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    monkeypatch.setattr(world.staged, "_on_disk", lambda _: pytest.fail("a disk was looked at"))
    for wanted in (None, ["mine", world.ids["theirs"]]):
        assert await world.history.deletions(wanted, lambda _: False) == []


async def test_only_what_is_shown_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    (shown,) = await world.history.deletions(None, lambda name: name == "mine")
    assert (shown.record.topic, shown.size_bytes, shown.remaining_ms) == ("mine", 7, 5)
    assert world.measured == ["mine"]


async def test_the_history_of_a_name_follows_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert [one.topic_id for one in world.history.history("mine", Uuid.ZERO, {})] == [world.ids["mine"]]
    world.image.deletions = {}
    with pytest.raises(KafkaError):
        world.history.history("mine", Uuid.ZERO, {})

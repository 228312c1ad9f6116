"""Controller messages at a broker: fencing, identity, staging, and stray replicas on its disk."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.clock import FakeClock
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    RestoreReplicasRequest,
    RestoreTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    UpdateCluster,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker.broker.metadata.deletion_records import DeletionRecord, write_operations
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.metadata_cache import MetadataCache, RemovedTopic
from pybroker.broker.metadata.metadata_store import Operation, OperationResult, ensure_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.metadata_updates import MetadataUpdates
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.broker.replicas.staged_marks import StoredMarks
from pybroker.broker.replicas.staging import Staging, ranges
from pybroker.broker.replicas.stray_evidence import TopicEvidence
from pybroker.broker.replicas.strays import Strays
from pybroker.broker.requests import loop_sharing
from pybroker.config import load_config
from pybroker.native import NativeBroker, StopOrder, Uuid
from tests.support.fake_native import FakeLocalPartition, FakeNative, NoReports

INCREMENTAL, FULL = 1, 2
A, B = Uuid.random(), Uuid.random()


class NoGroups:
    """A group coordinator without groups."""

    async def hold_commits(self, topic_id: Uuid) -> None: ...

    def release_commits(self, topic_id: Uuid) -> None: ...

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        return ()


class Host:
    """A replica manager on a fake disk."""

    def __init__(self, store: EmbeddedStore, directory: Path, *, several: bool = False) -> None:
        self.store = store
        self.directory = directory
        self.native = FakeNative()
        native = cast(NativeBroker, self.native)
        self.clock = FakeClock()
        self.view = KnownCluster([])
        self.share_max = 10
        self.closed: list[Uuid] = []
        known = TopicEvidence(self.view, store, 1, complete=several)
        self.staging = Staging(
            native, StoredMarks(store, 1), self.clock, known=known, close=self.close, found=NoReports()
        )
        self.cache = MetadataCache(native, "cluster")
        config, _ = load_config(None, ["log.dirs=/data"])
        self.manager = ReplicaManager(
            native=native,
            view=self.view,
            config=config,
            staging=self.staging,
            strays=Strays(native, store, known, lambda: self.share_max),
        )
        self.removed: list[tuple[str, Uuid]] = []
        fence = ControllerFence()
        fence.registered(10)
        self.receiver = ControlReceiver(
            fence=fence,
            cluster=self.view,
            replicas=self.manager,
            metadata=MetadataUpdates(self.cache, self.view, on_removed=[self._note_removed], on_shown=[]),
            closing=TopicClosing(native.partitions, NoGroups(), self.view),
            on_led=lambda _: None,
        )

    async def close(self, topic_id: Uuid) -> None:
        self.closed.append(topic_id)

    def _note_removed(self, gone: Sequence[RemovedTopic]) -> None:
        self.removed += [(one.name, one.topic_id) for one in gone]

    def found(self, *local: FakeLocalPartition) -> None:
        for one in local:
            self.native.disk[one.directory] = one
        self.manager.found_on_disk(list(self.native.disk.values()))  # type: ignore[arg-type]  # as much as is used

    def directory_of(
        self, name: str, partition: int, topic_id: Uuid | None, *, epochs: str = "", problem: str | None = None
    ) -> FakeLocalPartition:
        path = self.directory / f"{name}-{partition}"
        path.mkdir()
        if epochs:
            lines = epochs.split(",")
            (path / "leader-epoch-checkpoint").write_text(
                f"0\n{len(lines)}\n" + "".join(f"{epoch} 0\n" for epoch in lines)
            )
        return FakeLocalPartition(str(self.directory), str(path), name, partition, topic_id, problem)

    async def lead(
        self,
        topic_id: Uuid,
        *partitions: int,
        name: str = "a",
        epoch: int = 0,
        kind: int = INCREMENTAL,
        controller_epoch: int = 1,
        broker_epoch: int = 10,
    ) -> list[int]:
        states = [
            LeaderAndIsrPartitionState(index, controller_epoch, 1, epoch, (1,), 0, (1,), (), (), False)
            for index in partitions
        ]
        topics = [LeaderAndIsrTopicState(name, topic_id, states)] if states else []
        response = await self.receiver.handle(LeaderAndIsrRequest(1, controller_epoch, broker_epoch, kind, topics, []))
        assert isinstance(response, LeaderAndIsrResponse)
        if response.error_code:
            return [response.error_code]
        return [error.error_code for topic in response.topics for error in topic.partition_errors]

    async def stop(self, topic_id: Uuid, *partitions: int) -> None:
        states = [StopReplicaPartitionState(index, -2, True) for index in partitions]
        await self.receiver.handle(StopReplicaRequest(1, 1, 10, True, [StopReplicaTopicState("", topic_id, states)]))

    @property
    def staged(self) -> set[tuple[Uuid, int]]:
        return {(one.topic_id, one.partition) for one in self.native.staged.values()}

    @property
    def hosted(self) -> set[tuple[Uuid, int]]:
        return set(self.native.hosted)


@pytest_asyncio.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    store = await EmbeddedStore.open(tmp_path / "store")
    for path in znodes.PERSISTENT_PATHS:
        await ensure_path(store, path)
    host = Host(store, tmp_path)
    await host.staging.load()
    yield host
    await host.staging.stop()
    await store.close()
    host.native.close()


async def test_only_the_current_controller_and_this_life_are_obeyed(host: Host) -> None:
    assert await host.lead(A, 0, controller_epoch=5) == [0]
    assert await host.lead(A, 1, controller_epoch=4) == [11]
    assert await host.lead(A, 1, controller_epoch=5, broker_epoch=9) == [77]
    assert await host.lead(A, 1, controller_epoch=6, broker_epoch=-1) == [0]
    assert host.hosted == {(A, 0), (A, 1)}


@pytest.mark.parametrize("kind", [FULL, INCREMENTAL])
async def test_the_loop_runs_other_tasks_between_the_partitions_of_a_request(
    host: Host, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    monkeypatch.setattr(loop_sharing, "SLICE_S", 0.0)
    turns, topics = 0, [Uuid.random() for _ in range(100)]

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    states = [LeaderAndIsrPartitionState(0, 1, 1, 0, (1,), 0, (1,), (), (), False)]
    request = LeaderAndIsrRequest(
        1, 1, 10, kind, [LeaderAndIsrTopicState(f"t{n}", topic_id, states) for n, topic_id in enumerate(topics)], []
    )
    counting = asyncio.create_task(count())
    response = await host.manager.leader_and_isr(request)
    counting.cancel()
    assert [error.error_code for topic in response.topics for error in topic.partition_errors] == [0] * len(topics)
    # The checks, the entries of the open partitions, and with FULL the comparison with the directories.
    assert turns >= len(topics) * (4 if kind == FULL else 2)


async def test_epochs_go_forward_and_repeats_do_no_harm(host: Host) -> None:
    assert await host.lead(A, 0, epoch=5) == [0]
    assert await host.lead(A, 0, epoch=5) == [0]
    assert await host.lead(A, 0, epoch=4) == [11]


@pytest.mark.checklist(71, 72, 74, 75, 127, 128, "R10", "X26")
async def test_a_successor_takes_the_place_and_a_stale_one_does_not(host: Host) -> None:
    await host.lead(A, 0, 1, epoch=3)
    assert await host.lead(B, 0, epoch=3) == [103]
    assert (host.hosted, host.staged) == ({(A, 0), (A, 1)}, set())
    assert await host.lead(B, 0, epoch=4) == [0]
    assert (host.hosted, host.staged) == ({(B, 0), (A, 1)}, {(A, 0)})
    assert await host.lead(A, 0, epoch=3) == [103]


@pytest.mark.checklist(86)
async def test_incremental_requests_and_old_ids_delete_nothing(host: Host) -> None:
    await host.lead(A, 0, 1)
    for kind in (0, 1, 9):
        await host.lead(A, 0, kind=kind)
    assert host.staged == set()
    await host.stop(A, 0, 1)
    await host.lead(B, 0, epoch=1)
    await host.stop(A, 0)
    assert (host.hosted, host.staged) == ({(B, 0)}, {(A, 0), (A, 1)})


@pytest.mark.checklist(64, 65, 73, "X37", "D5")
async def test_only_a_full_request_says_something_of_what_it_does_not_name(host: Host) -> None:
    dead = Uuid.random()
    record = DeletionRecord("gone", dead, "removed", 1, 2, "User:a", 3, {0: (1,)}, {}, 0)
    await host.store.create(znodes.deletion_path(dead), record.encode())
    host.found(host.directory_of("a", 0, A), host.directory_of("a", 1, A), host.directory_of("gone", 0, dead))
    for kind in (INCREMENTAL, 0, 9):  # an unknown type is not FULL
        assert await host.lead(A, 0, kind=kind) == [0]
        assert (host.staged, host.hosted) == (set(), {(A, 0)})
    assert await host.lead(A, 0, kind=FULL) == [0]
    assert (host.staged, host.hosted) == ({(dead, 0)}, {(A, 0)}), "partition 1 is unknown, not dead"


@pytest.mark.checklist(86, "C12")
async def test_a_stop_is_not_confirmed_for_what_may_lie_in_a_lost_directory(host: Host) -> None:
    await host.lead(A, 0)
    host.native.offline = True
    states = [StopReplicaPartitionState(index, -2, True) for index in range(2)]
    request = StopReplicaRequest(1, 1, 10, True, [StopReplicaTopicState("", A, states)])
    for _ in range(2):  # The repeated order is confirmed for the staged replica, and still not for the other one
        response = await host.receiver.handle(request)
        assert isinstance(response, StopReplicaResponse)
        assert [(one.partition_index, one.error_code) for one in response.topics[0].partition_errors] == [
            (0, 0),
            (1, 56),
        ]
    host.native.offline = False
    response = await host.receiver.handle(request)
    assert isinstance(response, StopReplicaResponse)
    assert {one.error_code for one in response.topics[0].partition_errors} == {0}


@pytest.mark.checklist(83, 84, 86, "X12")
@pytest.mark.parametrize(
    ("whole", "flags", "staged"),
    [
        (False, (False, False), set()),
        (True, (False, False), {"a", "b"}),
        (False, (True, False), {"a"}),
        (True, (True, False), {"a"}),  # the partition's own flag takes precedence
        (True, (True, True), {"a", "b"}),
    ],
)
async def test_the_partitions_own_flag_decides_what_is_deleted(
    host: Host, whole: bool, flags: tuple[bool, bool], staged: set[str]
) -> None:
    ids = {"a": A, "b": B}
    for name, topic_id in ids.items():
        await host.lead(topic_id, 0, name=name)
    topics = [
        StopReplicaTopicState("", topic_id, [StopReplicaPartitionState(0, -2, flag)])
        for topic_id, flag in zip(ids.values(), flags, strict=True)
    ]
    response = await host.receiver.handle(StopReplicaRequest(1, 1, 10, whole, topics))
    assert isinstance(response, StopReplicaResponse)
    # The response groups partitions by topic id, without names.
    assert [(each.topic_id, each.partition_errors[0].error_code) for each in response.topics] == [(A, 0), (B, 0)]
    assert host.staged == {(ids[name], 0) for name in staged}
    assert host.hosted == set(), "not hosted any more, deleted or not"
    unknown = await host.receiver.handle(
        StopReplicaRequest(
            1, 1, 10, True, [StopReplicaTopicState("", Uuid.random(), [StopReplicaPartitionState(0, -2, True)])]
        )
    )
    assert isinstance(unknown, StopReplicaResponse)
    assert unknown.topics[0].partition_errors[0].error_code == 0
    assert len(host.staged) == len(staged)


async def test_a_zero_id_is_refused(host: Host) -> None:
    assert await host.lead(Uuid.ZERO, 0) == [100]


@pytest.mark.checklist(6, 65, 69, 70, 71, 74, 124, "X38", "R30")
async def test_full_request_settles_what_lies_on_disk(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    dead, unknown, older, same = Uuid.random(), Uuid.random(), Uuid.random(), Uuid.random()
    record = DeletionRecord("gone", dead, "removed", 1, 2, "User:a", 3, {0: (1,)}, {}, 0)
    await host.store.create(znodes.deletion_path(dead), record.encode())
    host.found(
        host.directory_of("mine", 0, A),
        host.directory_of("gone", 0, dead),
        host.directory_of("alien", 0, unknown),
        host.directory_of("mine", 1, older, epochs="0,3"),
        host.directory_of("mine", 2, same, epochs="0,4"),
        host.directory_of("mine", 3, None, problem="partition.metadata: garbage"),
    )
    (host.directory / "mine-3" / "partition.metadata").write_text("garbage")
    assert await host.lead(A, 0, 1, 2, 3, 4, name="mine", epoch=4, kind=FULL) == [103, 56, 0, 0, 0]
    assert host.staged == {(dead, 0), (older, 1)}
    assert {partition for _, partition in host.hosted} == {0, 1, 4}
    assert str(unknown) in caplog.text
    assert (host.directory / "alien-0").is_dir()


async def test_a_directory_without_id_is_adopted_only_when_empty(host: Host) -> None:
    host.found(
        host.directory_of("a", 0, None, problem="partition.metadata is missing"),
        host.directory_of("a", 1, None, problem="partition.metadata is missing"),
    )
    (host.directory / "a-0" / "00000000000000000000.log").write_bytes(b"")
    (host.directory / "a-1" / "00000000000000000000.log").write_bytes(b"records")
    del host.native.disk[str(host.directory / "a-0")]
    assert sorted(await host.lead(A, 0, 1, kind=FULL)) == [0, 56]
    assert (host.directory / "a-0" / "partition.metadata").read_text().endswith(str(A))
    assert not (host.directory / "a-1" / "partition.metadata").exists()


async def test_a_disk_that_takes_no_id_costs_that_partition_only(host: Host) -> None:
    """In an earlier version, the whole FULL request failed, and with it every partition of the broker."""
    host.found(
        host.directory_of("a", 0, None, problem="partition.metadata is missing"),
        host.directory_of("a", 1, A),
    )
    host.native.failing_adoptions = {"a-0": "No space left on device"}
    assert sorted(await host.lead(A, 0, 1, kind=FULL)) == [0, 56]
    assert host.hosted == {(A, 1)}


@pytest.mark.checklist("X27")
async def test_a_full_request_that_would_stage_too_much_stages_nothing(host: Host) -> None:
    host.found(*[host.directory_of("a", index, Uuid.random(), epochs="0") for index in range(20)])
    assert set(await host.lead(A, *range(20), epoch=1, kind=FULL)) == {56}
    assert host.staged == set()


@pytest.mark.checklist("X27")
async def test_an_empty_full_request_stages_nothing(host: Host) -> None:
    host.found(*[host.directory_of("a", index, A) for index in range(3)])
    await host.lead(A, kind=FULL)
    assert host.staged == set()


@pytest.mark.checklist(78, 143, 144, "X6", "X7", "D9")
async def test_staging_says_what_and_until_when(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    await host.lead(A, 0, 1, 2, 5)
    await host.lead(B, 0, 1, 2, 5, epoch=1)
    (warned,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned.startswith(f"replaced by a new topic of the same name: topic a (id {A}), partitions 0-2, 5 will be")
    assert "removed from disk after 2023-11-15T02:13:20" in warned
    node = host.staging.waiting[A]
    assert node.remove_after_ms - node.staged_ms == 14_400_000
    await host.staging.promise({A: "a"}, 1_000)
    assert host.staging.waiting[A].remove_after_ms == node.remove_after_ms


@pytest.mark.checklist("A9", "X7")
async def test_the_move_does_not_wait_for_the_promise_and_the_answer_does(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A successor waits for the response, and a broker responds only after it has stored the deadline."""
    await host.lead(A, 0)
    stored, multi = asyncio.Event(), host.store.multi

    async def slow(operations: Sequence[Operation]) -> list[OperationResult]:
        await stored.wait()
        return await multi(operations)

    monkeypatch.setattr(host.store, "multi", slow)
    stopping = asyncio.create_task(host.stop(A, 0))
    async with asyncio.timeout(60):
        while not host.staged:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)
    assert not stopping.done()
    stored.set()
    await stopping
    assert A in host.staging.waiting
    assert await host.store.get(f"{znodes.STAGED}/1/{A}")


@pytest.mark.checklist("A9", "X7")
async def test_what_a_killed_broker_had_moved_is_promised_before_it_is_confirmed(host: Host) -> None:
    """The broker was killed after it moved the data and before it stored the deadline. The controller repeats the
    order, and treats replicas without a deadline as removed."""
    place = "/data/a-0"
    host.native.disk[place] = FakeLocalPartition("/data", place, "a", 0, A)
    host.native.log_dirs.stage(place)
    await host.stop(A, 0)
    path = f"{znodes.STAGED}/1/{A}"
    node = znodes.decode_staged(path, (await host.store.get(path)).data)
    assert node.remove_after_ms - node.staged_ms == 14_400_000


async def test_a_start_forgets_no_deadline_of_data_that_is_staged_meanwhile(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.lead(A, 0)
    started, stop = threading.Event(), host.native.partitions.stop

    def slow(orders: Sequence[StopOrder]) -> list[int]:
        assert started.wait(60)
        return stop(orders)

    monkeypatch.setattr(host.native.partitions, "stop", slow)
    stopping = asyncio.create_task(host.stop(A, 0))
    async with asyncio.timeout(60):
        while A not in host.staging.waiting:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)
    await host.staging.start(0)
    started.set()
    await stopping
    assert host.staging.remaining_ms(A) == 14_400_000
    assert await host.store.get(f"{znodes.STAGED}/1/{A}")


async def test_the_data_of_a_failed_undelete_gets_its_delay_again(host: Host) -> None:
    """The undelete has moved the data back and failed on another broker. The broker serves no replica of the topic."""
    await host.lead(A, 0)
    await host.stop(A, 0)
    await host.receiver.handle(RestoreReplicasRequest(1, 1, 10, (RestoreTopicState("a", A, (0,)),)))
    assert host.staged == set()
    host.clock.advance(60_000)
    await host.stop(A, 0)
    assert host.staged == {(A, 0)}
    assert host.staging.remaining_ms(A) == 14_400_000
    assert A in host.staging._due, "the removal is scheduled"


@pytest.mark.checklist(59, 326)
async def test_directories_by_id_get_the_name_of_their_deletion(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the directory nor the request has the name. The deletion record has it, even if the record is stored in
    pieces."""
    caplog.set_level(logging.DEBUG)
    stray, staged, stopped, foreign = (Uuid.random() for _ in range(4))
    for topic_id, name, offsets in ((stray, "stray", 0), (staged, "staged", 20_000), (stopped, "stopped", 0)):
        groups = tuple({"group": f"a-group-with-a-long-name-{number}", "offset": 1} for number in range(offsets))
        record = DeletionRecord(name, topic_id, "deleting", 1, 2, "User:a", 3, {0: (1,)}, {}, 0, groups)
        _, operations = write_operations(None, record)
        await host.store.multi(operations)
    places = {one: str(host.directory / one.hex[:2] / f"{one.hex}_0") for one in (stray, staged, stopped, foreign)}
    host.found(*(FakeLocalPartition(str(host.directory), places[one], None, 0, one) for one in (stray, stopped)))
    for one in (staged, foreign):
        host.native.disk[places[one]] = FakeLocalPartition(str(host.directory), places[one], None, 0, one)
        host.native.log_dirs.stage(places[one])
    await host.stop(stopped, 0)
    await host.lead(A, kind=FULL)
    await host.staging.start(5_000)
    names = {topic_id: node.topic for topic_id, node in host.staging.waiting.items()}
    assert names == {stray: "stray", staged: "staged", stopped: "stopped", foreign: ""}
    assert f"deleted: topic stopped (id {stopped}), partitions 0 will be removed" in caplog.text
    assert f"left over on disk: topic stray (id {stray}), partitions 0 will be removed" in caplog.text
    host.clock.advance(14_400_000)
    host.staging.staged([])  # this makes the loop read the clock
    for _ in range(60_000):
        if not host.staging.waiting:
            break
        await asyncio.sleep(0.001)
    assert f"removed 1 bytes of deleted topic staged (id {staged})" in caplog.text
    assert f"removed 1 bytes of deleted topic of unknown name (id {foreign})" in caplog.text


async def test_directories_without_a_deadline_get_a_whole_one(host: Host) -> None:
    await host.lead(A, 0)
    host.native.log_dirs.stage("/data/a-0")
    await host.staging.start(5_000)
    assert host.staging.waiting[A].remove_after_ms == host.clock.wall_ms() + 5_000


def test_ranges() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9-10"


@pytest.mark.checklist(105)
async def test_the_cache_follows_and_tells(host: Host) -> None:
    async def show(topic_id: Uuid, leader: int, *indexes: int) -> None:
        states = [UpdateMetadataPartitionState(index, 1, leader, 0, (1,), 0, (1,), ()) for index in indexes]
        topic = UpdateMetadataTopicState("a", topic_id, states)
        await host.receiver.handle(UpdateMetadataRequest(1, 1, 10, [topic], []))

    await show(A, 1, 0, 1)
    await show(A, 1, 2)
    topic = host.cache.topic("a")
    assert topic is not None
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
    await show(B, 1, 0)
    assert (host.cache.topic_id("a"), host.cache.topic_name(A), host.removed) == (B, None, [("a", A)])
    await show(A, -2, 0)
    assert host.cache.topic_id("a") == B
    await show(B, -2, 0)
    assert host.cache.topics == {}
    assert host.removed == [("a", A), ("a", B)]
    assert host.native.deltas[-1].topics_removed == [B]


async def test_a_removal_that_ends_by_a_bug_is_told_at_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    def bug() -> list[object]:
        raise RuntimeError("a bug")

    await host.lead(A, 0)
    await host.staging.start(0)
    host.native.log_dirs.staged = bug  # type: ignore[method-assign,assignment]  # a call that fails
    await host.staging.promise({A: "a"}, 0)
    host.staging.staged([A])
    for _ in range(6_000):
        if "is no longer removed" in caplog.text:
            break
        await asyncio.sleep(0.01)
    assert "is no longer removed" in caplog.text
    await host.staging.stop()


@pytest.mark.checklist(72, "A5")
async def test_a_predecessor_that_cannot_be_put_aside_keeps_its_place(host: Host) -> None:
    await host.lead(A, 0, 1, epoch=3)
    host.native.failing_stops[A, 1] = 56
    assert sorted(await host.lead(B, 0, 1, epoch=4)) == [0, 56]
    assert (host.hosted, host.staged) == ({(B, 0), (A, 1)}, {(A, 0)})
    del host.native.failing_stops[A, 1]
    assert await host.lead(B, 1, epoch=4) == [0]
    assert (host.hosted, host.staged) == ({(B, 0), (B, 1)}, {(A, 0), (A, 1)})


async def test_a_replica_that_an_order_stopped_or_refused_is_not_missed(host: Host) -> None:
    """Role reconciliation executes lost orders again. Until UpdateMetadata arrives it still sees stopped replicas."""
    settled = host.manager.settled_epoch
    await host.lead(A, 0, 1, epoch=3)
    assert settled(A, 0) == -1
    await host.stop(A, 0)
    assert settled(A, 0) == 3
    assert await host.lead(A, 0, epoch=4) == [0]
    assert settled(A, 0) == -1
    host.native.failing_stops[A, 1] = 56
    assert await host.lead(B, 1, epoch=5) == [56]
    assert settled(B, 1) == 5
    shown = TopicImage("b", B, (PartitionImage((1,), 1, 6, (1,), 1, 0),), {}, 0, 0, 0)
    image = ClusterImage.initial(1).apply(ImageDelta(topics=(shown,)))
    assert (await host.receiver.handle(UpdateCluster(1, 1, 10, 7, image))).error_code == 0
    await host.stop(B, 0)
    assert settled(B, 0) == 6, "its order was lost, and it is deleted"


async def test_settings_of_a_topic_are_those_that_the_controller_told_last(host: Host) -> None:
    def topic(**config: str) -> TopicImage:
        own = {name.replace("_", "."): value for name, value in config.items()}
        return TopicImage("a", A, (), own, 0, 0, 0)

    async def tell(number: int, change: ClusterImage | ImageDelta) -> None:
        assert (await host.receiver.handle(UpdateCluster(1, 1, 10, number, change))).error_code == 0

    await tell(7, ClusterImage.initial(1).apply(ImageDelta(topics=(topic(retention_ms="5"),))))
    assert host.manager.resolved_config(A)["retention.ms"] == "5"
    await tell(8, ImageDelta(topics=(topic(retention_ms="6"),)))
    assert host.manager.resolved_config(A)["retention.ms"] == "6"
    await tell(9, ImageDelta(removed=(topic(),)))
    assert host.manager.resolved_config(A)["retention.ms"] != "6"


@pytest.mark.checklist("A9")
async def test_what_is_promised_while_files_are_removed_keeps_its_deadline(host: Host) -> None:
    await host.lead(A, 0, 1, epoch=3)
    await host.staging.start(0)
    removing, go_on = threading.Event(), threading.Event()
    purge = host.native.log_dirs.purge

    def slow_purge(path: str) -> int:
        removing.set()
        assert go_on.wait(60)
        return purge(path)

    host.native.log_dirs.purge = slow_purge  # type: ignore[method-assign]  # a call that waits
    await host.staging.promise({A: "a"}, 0)
    host.native.partitions.stop([StopOrder(A, 0, -1, True)])
    host.staging.staged([A])
    assert await asyncio.to_thread(removing.wait, 60)
    # The other partition is staged with its own deadline while the first one's files are removed.
    await host.staging.promise({A: "a"}, 60_000)
    host.native.partitions.stop([StopOrder(A, 1, -1, True)])
    host.staging.staged([A])
    go_on.set()
    for _ in range(6_000):
        if host.native.purged:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    await host.staging.stop()
    assert host.staged == {(A, 1)}
    assert host.staging.waiting[A].remove_after_ms == host.clock.wall_ms() + 60_000
    assert await host.store.exists(f"{znodes.STAGED}/1/{A}")

"""A FULL request in a cluster: what happens to partitions that it does not name, including those in service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import (
    UpdateCluster,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker.broker.metadata.deletion_records import DELETING, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.metadata_store import ensure_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.native import Uuid
from tests.unit.replicas.test_replica_manager import FULL, INCREMENTAL, A, B, Host

DEAD, AWAY, BACK, UNKNOWN = (Uuid.random() for _ in range(4))
UNSPECIFIED, LATER_KIND = 0, 3


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    store = await EmbeddedStore.open(tmp_path / "store")
    for path in znodes.PERSISTENT_PATHS:
        await ensure_path(store, path)
    host = Host(store, tmp_path, several=True)
    await host.staging.load()
    yield host
    await host.staging.stop()
    await store.close()
    host.native.close()


def topic(name: str, topic_id: Uuid, *replicas: int) -> TopicImage:
    return TopicImage(name, topic_id, (PartitionImage(replicas, replicas[0], 0, replicas, 1, 0),), {}, 0, 0, -1)


def record(name: str, topic_id: Uuid, state: str) -> DeletionRecord:
    return DeletionRecord(name, topic_id, state, 1, 2, "User:a", 3, {0: (1,)}, {}, 0)


async def show(
    host: Host, *topics: TopicImage, controller_epoch: int = 1, deletions: tuple[DeletionRecord, ...] = ()
) -> None:
    change = ClusterImage.initial(controller_epoch).apply(ImageDelta(topics=topics, deletions=deletions))
    assert (await host.receiver.handle(UpdateCluster(1, controller_epoch, 10, 1, change))).error_code == 0


@pytest.mark.checklist(5, 6, 65, 69, 70, 73, 124, "X37", "X38", "R30", "D5")
@pytest.mark.parametrize("served", [True, False], ids=["in service", "on disk"])
async def test_each_partition_that_is_not_named_has_its_fate(host: Host, served: bool) -> None:
    everything = {"mine": A, "dead": DEAD, "away": AWAY, "back": BACK, "ghost": UNKNOWN}
    if served:
        for name, topic_id in everything.items():
            assert await host.lead(topic_id, 0, name=name) == [0]
    else:
        host.found(*(host.directory_of(name, 0, topic_id) for name, topic_id in everything.items()))
    deletions = (record("dead", DEAD, DELETING), record("back", BACK, UNDELETING))
    await show(host, topic("mine", A, 1), topic("away", AWAY, 2, 3), deletions=deletions)
    for kind in (INCREMENTAL, UNSPECIFIED, LATER_KIND):
        assert await host.lead(A, 0, name="mine", kind=kind) == [0]
        assert host.staged == set(), "only FULL says something of what it does not name"
    assert await host.lead(A, 0, name="mine", kind=FULL) == [0]
    assert host.staged == {(DEAD, 0), (AWAY, 0), (UNKNOWN, 0)}
    endless = {topic_id: node.endless for topic_id, node in host.staging.waiting.items()}
    assert endless == {DEAD: False, AWAY: False, UNKNOWN: True}
    assert host.hosted == ({(A, 0), (BACK, 0)} if served else {(A, 0)})


@pytest.mark.checklist("A10", "R30")
async def test_an_unknown_id_that_turns_out_to_be_a_topics_is_in_service_again(host: Host) -> None:
    host.found(host.directory_of("a", 0, A))
    await show(host)
    await host.lead(B, kind=FULL)
    assert host.staging.waiting[A].endless
    await host.staging.start(0)
    assert host.staging.waiting[A].endless, "what was put aside without a deadline gets none later"
    host.native.staged.clear()  # native code restores it when the request names it
    assert await host.lead(A, 0) == [0]
    assert not host.staging.waiting


@pytest.mark.checklist("R27")
async def test_a_full_request_without_its_controllers_image_says_nothing_of_others(host: Host) -> None:
    """The same holds for a late FULL request of a controller that was replaced."""
    host.found(host.directory_of("ghost", 0, UNKNOWN))
    await host.lead(B, 0, name="b")
    await show(host, controller_epoch=1)
    assert await host.lead(A, 0, kind=FULL, controller_epoch=2) == [0]
    assert host.staged == set()
    await show(host, controller_epoch=2)
    assert await host.lead(A, 0, kind=FULL, controller_epoch=2) == [0]
    assert host.staged == {(UNKNOWN, 0), (B, 0)}
    # This request of the previous controller is late.
    assert await host.lead(B, 0, name="b", kind=FULL, controller_epoch=1) == [11]


@pytest.mark.checklist("X27", "R30")
@pytest.mark.parametrize("where", ["elsewhere", "unknown"])
async def test_too_much_at_once_waits_for_an_operator(host: Host, where: str) -> None:
    ids = [Uuid.random() for _ in range(12)]
    for number, topic_id in enumerate(ids):
        await host.lead(topic_id, 0, name=f"t{number}")
    live = [topic(f"t{number}", topic_id, 2) for number, topic_id in enumerate(ids) if where == "elsewhere"]
    await show(host, *live)
    await host.lead(A, kind=FULL)
    assert (host.staged, len(host.hosted)) == (set(), 12)
    host.share_max = 100
    await host.lead(A, kind=FULL)
    assert (len(host.staged), host.hosted) == (12, set())


@pytest.mark.checklist("R30")
async def test_what_deletions_prove_is_never_too_much(host: Host) -> None:
    ids = [Uuid.random() for _ in range(12)]
    for number, topic_id in enumerate(ids):
        await host.lead(topic_id, 0, name=f"t{number}")
    await show(host, deletions=tuple(record("t", topic_id, DELETING) for topic_id in ids))
    await host.lead(A, kind=FULL)
    assert len(host.staged) == 12


@pytest.mark.checklist("R30")
async def test_what_was_moved_away_is_never_too_much(host: Host) -> None:
    """The topic names its replicas; a missing one may be a fault of the controller."""
    ids = [Uuid.random() for _ in range(12)]
    for number, topic_id in enumerate(ids):
        await host.lead(topic_id, 0, name=f"t{number}")
    live = [topic(f"t{number}", topic_id, 2) for number, topic_id in enumerate(ids)]
    await show(host, *live)
    await host.lead(A, kind=FULL)
    assert host.staged == set()
    await show(host, *(msgspec.structs.replace(one, departed={0: {1: 1}}) for one in live))
    await host.lead(A, kind=FULL)
    assert len(host.staged) == 12


async def test_a_topic_whose_nodes_are_damaged_is_not_unknown(host: Host) -> None:
    await host.lead(A, 0)
    await host.lead(B, 0, name="b")
    image = ClusterImage(1, {}, {}, {}, {}, {}, {}, {}, {"a": "garbage"})
    await host.receiver.handle(UpdateCluster(1, 1, 10, 1, image))
    await host.lead(DEAD, kind=FULL)
    assert host.hosted == {(A, 0)}
    assert host.staged == {(B, 0)}


@pytest.mark.checklist(8, 105)
async def test_a_topic_whose_deletion_was_missed_is_not_shown_any_more(host: Host) -> None:
    """The controller died after deleting the topic and before sending the order; the next one names only existing
    topics."""

    async def update(controller_epoch: int, *topics: UpdateMetadataTopicState) -> None:
        await host.receiver.handle(UpdateMetadataRequest(1, controller_epoch, 10, list(topics), []))

    state = UpdateMetadataPartitionState(0, 1, 1, 0, (1,), 0, (1,), ())
    await show(host, topic("a", A, 1), topic("b", B, 1))
    await update(1, UpdateMetadataTopicState("a", A, [state]), UpdateMetadataTopicState("b", B, [state]))
    await show(host, topic("a", A, 1), controller_epoch=2)
    await update(2, UpdateMetadataTopicState("a", A, [state]))
    assert (host.cache.topic_id("a"), host.cache.topic_id("b"), host.removed) == (A, None, [("b", B)])
    assert host.native.deltas[-1].topics_removed == [B]

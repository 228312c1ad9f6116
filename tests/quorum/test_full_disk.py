"""A node whose disk is full gives up its role, loses no record, and continues without a restart when there is space."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.client import KafkaError, NewTopic, blocking
from tests.quorum.kit import NodeProcess, Quorum
from tests.quorum.scene import Scene, until
from tests.quorum.test_processes import propose
from tests.support.disks import LoopDisk, can_mount


class Room(NamedTuple):
    """Fill a node's disk, and free the space again."""

    root: Path
    take: Callable[[NodeProcess], None]
    give: Callable[[NodeProcess], None]


def limit_files(node: NodeProcess, size: int) -> None:
    """Limit the size of files like `ulimit -f`: larger files fail as on a full disk."""
    assert node.process is not None
    _, hard = resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def largest_file(node: NodeProcess) -> int:
    return max(path.stat().st_size for path in node.directory.iterdir())


@pytest.fixture(params=["disk", "limit"] if can_mount() else ["limit"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    if request.param == "limit":
        yield Room(
            tmp_path,
            lambda node: limit_files(node, largest_file(node) + 100),
            lambda node: limit_files(node, resource.RLIM_INFINITY),
        )
        return
    with contextlib.ExitStack() as stack:
        disks = {}
        for node_id in (1, 2, 3):
            disks[node_id] = LoopDisk(tmp_path / f"disk-{node_id}", 16)
            stack.callback(disks[node_id].close)
            (tmp_path / str(node_id)).symlink_to(disks[node_id].path)
        yield Room(tmp_path, lambda node: disks[node.node_id].fill(), lambda node: disks[node.node_id].free())


async def propose_until_refused(leader: NodeProcess, epoch: int, prefix: str) -> list[str]:
    """Propose records until the leader refuses one; return the acknowledged ones."""
    acknowledged: list[str] = []
    number = 0
    while True:
        name = f"{prefix}{number}-{'x' * 500}"
        outcome = await leader.ask("propose", epoch=epoch, records=[name])
        if "error" in outcome:
            return acknowledged
        acknowledged.append(name)
        number += 1


async def test_leader_with_a_full_disk_gives_way_and_comes_back(room: Room) -> None:
    async with Quorum(room.root, 3) as quorum:
        first, epoch = await quorum.leader()
        assert first.process is not None
        pid = first.process.pid
        names = [f"a{number}" for number in range(200)]
        await propose(first, epoch, names)
        room.take(first)
        names += await propose_until_refused(first, epoch, "b")

        second, epoch = await quorum.leader(but=first.node_id)
        later = [f"c{number}" for number in range(200)]
        await propose(second, epoch, later)
        await first.until(lambda status: status["refusals"] > 0, "the full disk is counted")
        assert (await first.ask("status"))["leader"][1] != first.node_id

        room.give(first)
        await quorum.settled()
        records = [(await node.ask("records"))["records"] for node in quorum.nodes.values()]
        assert records[0] == records[1] == records[2]
        assert {*names, *later} <= set(records[0])
        assert len(set(records[0])) == len(records[0])
        # The node may lead again: the test stops brokers until only this node and one other are left.
        assert first.process.pid == pid
        await second.kill()
        last, epoch = await quorum.leader(but=second.node_id)
        await propose(last, epoch, ["end"])
        await second.start()
        await quorum.settled()
        await quorum.stop()
        logs = [node.log() for node in quorum.nodes.values()]
        assert logs[0] == logs[1] == logs[2]


async def test_follower_with_a_full_disk_catches_up_when_there_is_room(room: Room) -> None:
    async with Quorum(room.root, 3) as quorum:
        leader, epoch = await quorum.leader()
        follower = next(node for node in quorum.nodes.values() if node is not leader)
        room.take(follower)
        names = [f"a{number}-{'x' * 500}" for number in range(200)]
        await propose(leader, epoch, names)
        await follower.until(lambda status: status["refusals"] > 0, "the disk is full")
        room.give(follower)
        await quorum.settled()
        assert set((await follower.ask("records"))["records"]) == set(names)


async def test_majority_with_full_disks_waits_for_room(room: Room) -> None:
    async with Quorum(room.root, 3) as quorum:
        leader, epoch = await quorum.leader()
        await propose(leader, epoch, ["a"])
        full = [leader, next(node for node in quorum.nodes.values() if node is not leader)]
        for node in full:
            room.take(node)
        waiting = asyncio.gather(*(propose_until_refused(leader, epoch, f"b{turn}-") for turn in range(4)))
        acknowledged = [name for part in await waiting for name in part]
        for node in full:
            room.give(node)
        leader, epoch = await quorum.leader()
        await propose(leader, epoch, ["end"])
        await quorum.settled()
        for node in quorum.nodes.values():
            records = (await node.ask("records"))["records"]
            assert {"a", "end", *acknowledged} <= set(records)


@pytest.mark.skipif(not can_mount(), reason="no small disk: that takes a user who may mount")
def test_controller_on_a_full_disk_gives_way_and_learns_the_rest_later(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    disks = {}
    try:
        for broker_id, broker in scene.brokers.items():
            disks[broker_id] = LoopDisk(tmp_path / f"disk-{broker_id}", 48)
            (disks[broker_id].path / "data").mkdir()
            broker.data_dir.symlink_to(disks[broker_id].path / "data")
        scene.start()
        until(scene.all_vote)
        first = scene.controller()
        broker = scene.brokers[first]
        pid = broker.pid
        others = [number for number in scene.brokers if number != first]
        disks[first].fill()
        numbers = iter(range(10**6))

        def gave_way() -> bool:
            with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin, contextlib.suppress(KafkaError):
                topic = NewTopic(f"t{next(numbers)}-{'x' * 200}", replica_assignments={0: others})
                admin.create_topics([topic]).all()
            return "metadata log full" in broker.console.read_text()

        until(gave_way)
        until(lambda: scene.controller() != first)
        bootstrap = ",".join(other.bootstrap for number, other in scene.brokers.items() if number != first)
        with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
            admin.create_topics([NewTopic("later", replica_assignments={0: others})]).all()
        disks[first].free()
        until(lambda: "metadata log has room again" in broker.console.read_text())

        def knows() -> bool:
            with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
                return "later" in admin.list_topics()

        until(knows)
        assert broker.pid == pid
    finally:
        for broker in scene.brokers.values():
            broker.kill()
        for disk in disks.values():
            disk.close()

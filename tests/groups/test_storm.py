"""Many members that come and go, many groups: the coordinator stays stable, no commit is lost, memory is bounded."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import urllib.request
from collections.abc import Mapping

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic, unique
from tests.groups.raw_member import Line, RawMember, committed
from tests.groups.requests import commit
from tests.support.memory import resident_mib
from tests.support.wire import free_port

MEMBERS, PARTITIONS, LIVES = 200, 100, 20
GROUPS, LINES = 10_000, 16
GROWTH_MAX_MIB = 64
"""Memory that 10,000 groups, or 200 members and their connections, may add to a broker: about 6 KiB a group."""

MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
SENSORS = "kafka_server_group_coordinator_metrics_"


def metrics(port: int) -> Mapping[str, float]:
    """Return name → value of metrics without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line[:1] != "#" and "{" not in line}


class Storm:
    """Commands to 200 members, and their acknowledged commits."""

    def __init__(self, members: list[RawMember], seed: int) -> None:
        self._members = members
        self._chance = random.Random(seed)
        self._positions = itertools.count(1)
        self._settled = 0
        self.acknowledged: dict[int, int] = {}
        self.generations: set[int] = set()

    async def run(self) -> None:
        """Wait until every member has restarted as often as planned and one generation has them all."""
        async with asyncio.timeout(4 * WAIT_S), asyncio.TaskGroup() as tasks:
            for member in self._members:
                tasks.create_task(self._live(member))

    async def _live(self, member: RawMember) -> None:
        for _ in range(LIVES - 1):
            await member.join()
            for _ in range(self._chance.randrange(1, 4)):
                await self._commit(member)
                if await member.heartbeat() is not ErrorCode.NONE:
                    await member.join()
            await member.leave()
        await member.join()
        self._settled += 1
        while not self._over():
            await self._commit(member)
            match await member.heartbeat():
                case ErrorCode.NONE:
                    await asyncio.sleep(0.05)
                case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                    await member.join()
                case other:
                    raise AssertionError(f"Heartbeat: {other.name}")

    def _over(self) -> bool:
        return self._settled == len(self._members) and len({member.generation for member in self._members}) == 1

    async def _commit(self, member: RawMember) -> None:
        self.generations.add(member.generation)
        if not member.owned:
            return
        offsets = {partition: next(self._positions) for partition in member.owned}
        for partition, answer in (await member.commit(offsets)).items():
            if answer is ErrorCode.NONE:
                self.acknowledged[partition] = offsets[partition]
            else:
                assert answer in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION), answer.name


@pytest.mark.checklist("F1")
async def test_200_members_that_join_and_leave_lose_no_commit(start_broker: StartBroker) -> None:
    scraped = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{scraped}"})
    topic, group = create_topic(broker.bootstrap, PARTITIONS), unique("storm")
    before = resident_mib(broker.pid)
    lines = [await Line.open(broker.port) for _ in range(MEMBERS)]
    await coordinated(lines[0], group)
    members = [RawMember(line, group, topic, PARTITIONS) for line in lines]
    storm = Storm(members, seed=1)
    await storm.run()
    assert len(storm.generations) > LIVES
    assert sorted(itertools.chain(*(member.owned for member in members))) == list(range(PARTITIONS))
    assert len(storm.acknowledged) == PARTITIONS
    assert (await committed(lines[0], [group]))[group] == storm.acknowledged
    shown = metrics(scraped)
    assert shown[MANAGER + "numgroups"] == shown[MANAGER + "numgroupsstable"] == 1
    assert shown[MANAGER + "numgroupspreparingrebalance"] == shown[MANAGER + "numgroupsempty"] == 0
    assert shown[MANAGER + "numoffsets"] == PARTITIONS
    assert shown[SENSORS + "offset_commit_count"] >= PARTITIONS
    assert shown[SENSORS + "group_completed_rebalance_count"] >= len(storm.generations)
    assert resident_mib(broker.pid) - before < GROWTH_MAX_MIB
    for line in lines:
        await line.__aexit__(None, None, None)
    broker.restart(crash=True)
    async with await Line.open(broker.port) as line:
        await loaded(line, 1)
        assert (await committed(line, [group]))[group] == storm.acknowledged


async def coordinated(line: Line, group: str) -> None:
    """Wait until the group's coordinator responds: the first request creates its topic, which is then loaded."""
    async with asyncio.timeout(WAIT_S):
        while (await line.call(m.FindCoordinatorRequest(coordinator_keys=[group]), 4)).coordinators[0].error_code:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await loaded(line, 0)


async def loaded(line: Line, count: int) -> None:
    """Wait until all groups are listed."""
    end = time.monotonic() + WAIT_S
    while True:
        listed = await line.call(m.ListGroupsRequest(), 4)
        if listed.error_code == ErrorCode.NONE and len(listed.groups) == count:
            return
        assert listed.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), listed.error_code
        assert time.monotonic() < end, f"{len(listed.groups)} of {count} groups"
        await asyncio.sleep(0.05)


@pytest.mark.checklist("F11")
async def test_10_000_groups_are_there_after_a_restart(start_broker: StartBroker) -> None:
    scraped = free_port()
    # Do not wait for flushes: another test measures how fast a disk flushes.
    broker = start_broker({"log.flush.mode": "os", "metrics.listener": f"127.0.0.1:{scraped}"})
    topic = create_topic(broker.bootstrap, 2)
    names = [f"group-{number}" for number in range(GROUPS)]

    async def commits(numbers: range) -> None:
        async with await Line.open(broker.port) as line:
            for number in numbers:
                request = commit(names[number], topic, {0: number, 1: number + 1})
                answer = await line.call(request, 8)
                assert {one.error_code for one in answer.topics[0].partitions} == {ErrorCode.NONE}

    async with await Line.open(broker.port) as line:
        await coordinated(line, names[0])
    broker.restart()
    async with await Line.open(broker.port) as line:
        await loaded(line, 0)
    without = resident_mib(broker.pid)
    await asyncio.gather(*(commits(range(first, GROUPS, LINES)) for first in range(LINES)))
    assert metrics(scraped)[SENSORS + "offset_commit_count"] == 2 * GROUPS
    broker.restart()
    async with await Line.open(broker.port) as line:
        await loaded(line, GROUPS)
        found = await committed(line, names)
    assert found == {name: {0: number, 1: number + 1} for number, name in enumerate(names)}
    shown = metrics(scraped)
    assert shown[MANAGER + "numgroups"] == shown[MANAGER + "numgroupsempty"] == GROUPS
    assert shown[MANAGER + "numoffsets"] == 2 * GROUPS
    assert resident_mib(broker.pid) - without < GROWTH_MAX_MIB

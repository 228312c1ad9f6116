"""Three nodes in three processes: no acknowledged record is lost when the leader dies, and all logs become equal."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

from tests.quorum.kit import NodeProcess, Quorum

RECORDS = 1000
AT_ONCE = 50


async def propose(leader: NodeProcess, epoch: int, names: list[str]) -> None:
    """Propose the records separately, some at the same time; all must be acknowledged."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with turns:
            assert "offset" in await leader.ask("propose", epoch=epoch, records=[name])

    await asyncio.gather(*(one(name) for name in names))


async def propose_until_it_is_gone(leader: NodeProcess, epoch: int, prefix: str) -> list[str]:
    """Propose records until the node dies; return the acknowledged ones."""
    acknowledged: list[str] = []
    numbers = count()

    async def several() -> None:
        for number in numbers:
            try:
                outcome = await leader.ask("propose", epoch=epoch, records=[f"{prefix}{number}"])
            except ConnectionError:
                return
            assert "offset" in outcome
            acknowledged.append(f"{prefix}{number}")

    await asyncio.gather(*(several() for _ in range(AT_ONCE)))
    return acknowledged


async def test_leader_is_killed_while_records_are_proposed(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 3) as quorum:
        first, epoch = await quorum.leader()
        names = [f"a{number}" for number in range(RECORDS)]
        await propose(first, epoch, names)

        proposing = asyncio.create_task(propose_until_it_is_gone(first, epoch, "b"))
        await first.until(lambda status: status["applied"] > RECORDS + 100, "some are applied")
        await first.kill()
        before_death = await proposing
        assert before_death

        second, epoch = await quorum.leader(but=first.node_id)
        after_death = [f"c{number}" for number in range(RECORDS)]
        await propose(second, epoch, after_death)

        await first.start()
        await quorum.settled()
        images = [(await node.ask("records"))["records"] for node in quorum.nodes.values()]
        assert images[0] == images[1] == images[2]
        assert len(set(images[0])) == len(images[0])
        assert {*names, *before_death, *after_death} <= set(images[0])
        await quorum.stop()
        logs = [node.segments() for node in quorum.nodes.values()]
        assert logs[0] == logs[1] == logs[2]
        assert [value.decode() for _, value in first.log()] == images[0]


async def test_all_nodes_are_killed_at_once(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 3) as quorum:
        leader, epoch = await quorum.leader()
        proposing = asyncio.create_task(propose_until_it_is_gone(leader, epoch, "a"))
        await leader.until(lambda status: status["applied"] > RECORDS // 2, "half are applied")
        await asyncio.gather(*(node.kill() for node in quorum.nodes.values()))
        acknowledged = await proposing
        await asyncio.gather(*(node.start() for node in quorum.nodes.values()))
        leader, epoch = await quorum.leader()
        await propose(leader, epoch, ["end"])
        await quorum.settled()
        for node in quorum.nodes.values():
            records = (await node.ask("records"))["records"]
            assert set(acknowledged) <= set(records)
            assert records[-1] == "end"


async def test_node_that_was_away_fetches_a_snapshot(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 3, {"metadata.log.segment.bytes": 4096}) as quorum:
        leader, epoch = await quorum.leader()
        away = next(node for node in quorum.nodes.values() if node is not leader)
        await away.kill()
        names = [f"a{number}" for number in range(600)]
        for part in (names[:300], names[300:]):
            await propose(leader, epoch, part)
            assert (await leader.ask("snapshot"))["written"]
        await leader.until(lambda status: status["log_start"] > 0, "the log begins later")
        await away.start()
        await quorum.settled()
        assert (await away.ask("status"))["snapshots"] == 2
        records = [(await node.ask("records"))["records"] for node in quorum.nodes.values()]
        assert records[0] == records[1] == records[2]
        assert sorted(records[0]) == sorted(names)
        # The next start reads both generations of the leader's snapshots.
        await leader.kill()
        await leader.start()
        await quorum.settled()
        assert (await leader.ask("records"))["records"] == records[0]

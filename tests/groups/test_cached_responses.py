"""Data threads answer unchanged heartbeats without the control plane, and members still get every change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups import raw_member
from tests.groups.consumer_protocol_member import ConsumerProtocolMember, settle
from tests.groups.kit import WAIT_S, create_topic, delete_topic, unique, until
from tests.groups.raw_member import Line, RawMember
from tests.groups.test_storm import metrics
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.wire.client import WireClient

BEATS = 50
INTERVAL_MS = 200
SESSION_S = 4.0
CONTROL = "pybroker_control_requests_total"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
}


class World:
    """A broker, with the number of requests that its control plane has handled."""

    def __init__(self, broker: BrokerProcess, metrics_port: int) -> None:
        self.broker = broker
        self._metrics_port = metrics_port

    def asked(self) -> float:
        return metrics(self._metrics_port)[CONTROL]


@pytest.fixture
def world(start_broker: StartBroker) -> World:
    port = free_port()
    broker = start_broker({**SETTINGS, "metrics.listener": f"127.0.0.1:{port}"})
    with WireClient(broker.port) as client:
        # FindCoordinator creates the offsets topic.
        client.call(m.FindCoordinatorRequest(coordinator_keys=["any"]), 4)
    return World(broker, port)


@asynccontextmanager
async def members(broker: BrokerProcess, group: str, topic: str, count: int) -> AsyncIterator[list[RawMember]]:
    """Members of a classic group; each has a partition."""
    lines = [await Line.open(broker.port) for _ in range(count)]
    try:
        yield [RawMember(line, group, topic, count) for line in lines]
    finally:
        for line in lines:
            line._writer.close()


async def at_rest(*all_of_them: RawMember) -> None:
    """Join and send heartbeats until every member's response is unchanged."""
    async with asyncio.timeout(WAIT_S):
        while True:
            await asyncio.gather(*(one.join() for one in all_of_them))
            if [await one.heartbeat() for one in all_of_them] == [ErrorCode.NONE] * len(all_of_them):
                return


async def test_heartbeats_of_a_stable_group_do_not_reach_the_control_plane(world: World) -> None:
    topic, group = create_topic(world.broker.bootstrap, 3), unique("group")
    async with members(world.broker, group, topic, 3) as (one, two, late):
        await at_rest(one, two)
        before = world.asked()
        for _ in range(BEATS):
            assert await one.heartbeat() is ErrorCode.NONE
            assert await two.heartbeat() is ErrorCode.NONE
        assert world.asked() - before < BEATS, "of 100 heartbeats"
        # Send another generation than the member's own, over the same connection.
        one.generation += 1
        assert await one.heartbeat() is ErrorCode.ILLEGAL_GENERATION
        one.generation -= 1
        assert await one.heartbeat() is ErrorCode.NONE
        # The very next heartbeat gets the change.
        joining = asyncio.create_task(late.join())
        async with asyncio.timeout(WAIT_S):
            while await one.heartbeat() is ErrorCode.NONE:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        assert await two.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        await asyncio.gather(one.join(), two.join(), joining)
        assert await one.heartbeat() is ErrorCode.NONE
        await late.leave()
        assert await one.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "its answer was taken back before LeaveGroup's"


async def test_a_session_is_kept_by_heartbeats_that_the_control_plane_does_not_see(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_member, "SESSION_TIMEOUT_MS", int(SESSION_S * 1000))
    topic, group = create_topic(world.broker.bootstrap, 2), unique("group")
    async with members(world.broker, group, topic, 2) as (alive, silent):
        await at_rest(alive, silent)
        generation, before = alive.generation, world.asked()
        for _ in range(int(2.5 * SESSION_S / 0.1)):
            # At first, responses of both members are cached.
            assert await alive.heartbeat() is ErrorCode.NONE
            assert await silent.heartbeat() is ErrorCode.NONE
            await asyncio.sleep(0.1)
        assert world.asked() - before < 20, "two and a half sessions passed, of which the control plane heard nothing"
        async with asyncio.timeout(WAIT_S):
            while await alive.heartbeat() is ErrorCode.NONE:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.1)
        await alive.join()
        assert alive.generation == generation + 1
        assert alive.owned == [0, 1], "who fell silent is out, and nobody else"
        assert await silent.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def plain(member: ConsumerProtocolMember) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=member.group, member_id=member.member_id, member_epoch=member.epoch
    )


def test_heartbeats_of_a_settled_consumer_group_do_not_reach_the_control_plane(world: World) -> None:
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    settled = [ConsumerProtocolMember(lambda: broker.port, group, f"m{number}", (topic,)) for number in range(2)]
    settle(*settled)
    with WireClient(broker.port) as client, WireClient(broker.port) as other:

        def beat() -> m.ConsumerGroupHeartbeatResponse:
            answer: m.ConsumerGroupHeartbeatResponse = client.call(plain(settled[0]), 1)
            assert answer.error_code == 0, answer
            other.call(plain(settled[1]), 1)
            return answer

        def stands() -> bool:
            before = world.asked()
            for _ in range(BEATS):
                assert beat().assignment is None
            return world.asked() - before < BEATS

        until(stands, "the usual interval has passed since the target was made")
        # Change a setting of the group.
        with_settings(client, group, {"consumer.heartbeat.interval.ms": "150"})
        assert beat().heartbeat_interval_ms == 150
        until(stands, "nothing happens any more")
        # Delete a topic that the member reads.
        epoch = settled[0].epoch
        delete_topic(broker.bootstrap, topic)

        def moves() -> bool:
            answer = beat()
            return answer.member_epoch > epoch or answer.assignment is not None

        until(moves, "it is told")


def test_the_members_of_a_consumer_group_are_heard_by_data_threads(world: World) -> None:
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    alive, silent = (ConsumerProtocolMember(lambda: broker.port, group, name, (topic,)) for name in ("alive", "silent"))
    settle(alive, silent)
    with WireClient(broker.port) as client, WireClient(broker.port) as other:

        def live(seconds: float, *beating: tuple[WireClient, ConsumerProtocolMember]) -> bool:
            """Return False once a member's response has another epoch."""
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for connection, member in beating:
                    answer = connection.call(plain(member), 1)
                    assert answer.error_code == 0, answer
                    if answer.member_epoch != member.epoch:
                        member.epoch = answer.member_epoch
                        return False
                time.sleep(0.1)
            return True

        assert live(2.5 * SESSION_S, (client, alive), (other, silent))
        before = world.asked()
        assert live(1.0, (client, alive), (other, silent))
        assert world.asked() - before < 5, "of 20 heartbeats"
        until(lambda: not live(1.0, (client, alive)), "who falls silent is put out")
        settle(alive)
        assert len(alive.owned) == 2


def with_settings(client: WireClient, whose: str, settings: dict[str, str], resource_type: int = 32) -> None:
    """Set settings of a group or of another resource."""
    changes = [
        m.IncrementalAlterConfigsRequest_AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in settings.items()
    ]
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=resource_type, resource_name=whose, configs=changes
    )
    answer = client.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer

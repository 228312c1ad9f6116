"""franz-go in groups of the newer protocol (KIP-848), and Java and franz-go in one that is upgraded while it runs.
librdkafka and `pybroker.client`: tests/groups/test_consumer_groups.py and tests/client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pybroker.protocol import messages as m
from tests.clients.api import Client
from tests.clients.driver import DrivenClient, FranzClient, JavaClient, NewerFranzClient, NewerJavaClient
from tests.clients.expectations import PARTITIONS, Polling, records
from tests.groups.kit import kind_of
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.wire.client import WireClient

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose consumer groups have short intervals."""
    broker = PybrokerProcess(tmp_path_factory.mktemp("newer"), SETTINGS)
    broker.start()
    yield broker
    broker.end()


@pytest.fixture(scope="module")
def franz(newer: BrokerProcess) -> Iterator[Client]:
    client = NewerFranzClient(newer.bootstrap)
    yield client
    client.close()


def members(broker: BrokerProcess, group: str) -> int:
    """Return the number of members with the consumer protocol."""
    with WireClient(broker.port) as client:
        shown = client.call(m.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
    assert shown.error_code == 0
    return sum(one.member_type == 1 for one in shown.members)


def test_partitions_are_shared_out_anew_with_each_member(newer: BrokerProcess, franz: Client, topic: str) -> None:
    franz.create_topic(topic, PARTITIONS)
    group = f"{topic}-group"
    franz.produce(topic, records(200))
    polling = Polling(franz.join(group, topic))
    polling.until_assigned()
    polling.until_received(200)
    joined = franz.join(group, topic)
    polling.members.append(joined)
    polling.until_assigned()
    assert members(newer, group) == 2
    franz.produce(topic, records(200, tag="more"))
    polling.until_received(400)
    polling.members.remove(joined)
    joined.close()
    polling.until_assigned()
    polling.members[0].close()
    assert members(newer, group) == 0


def test_members_go_on_when_the_coordinator_is_killed(newer: BrokerProcess, franz: Client, topic: str) -> None:
    franz.create_topic(topic, PARTITIONS)
    group = f"{topic}-group"
    franz.produce(topic, records(200))
    member = franz.join(group, topic)
    polling = Polling(member)
    polling.until_received(200)
    member.commit(dict.fromkeys(range(PARTITIONS), 50))
    newer.restart(crash=True)
    franz.produce(topic, records(200, tag="more"))
    polling.until_received(400)
    assert len(polling.received) == 400, "nothing is read twice"
    member.commit(dict.fromkeys(range(PARTITIONS), 90))
    member.close()
    again = Polling(franz.join(group, topic))
    again.until_received(40)
    assert sorted((one.partition, one.offset) for one in again.received) == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(90, 100)
    ]
    again.members[0].close()


@pytest.mark.parametrize(("classic", "consumer"), [(JavaClient, NewerJavaClient), (FranzClient, NewerFranzClient)])
def test_a_running_classic_group_is_upgraded_and_returns(
    newer: BrokerProcess, topic: str, classic: type[DrivenClient], consumer: type[DrivenClient]
) -> None:
    """One member after another restarts with the newer protocol, and back; the others read on meanwhile."""
    group = f"{topic}-group"
    with closing(classic(newer.bootstrap)) as old, closing(consumer(newer.bootstrap)) as new:
        old.create_topic(topic, PARTITIONS)
        old.produce(topic, records(200))
        first = old.join(group, topic)
        polling = Polling(first)
        polling.until_received(200)
        assert kind_of(newer, group) == "classic"
        second = new.join(group, topic)
        polling.members.append(second)
        polling.until(lambda: len(second.assignment()) == PARTITIONS // 2, "both protocols share")
        assert kind_of(newer, group) == "consumer"
        old.produce(topic, records(200, tag="more"))
        polling.until_received(400)
        polling.members.remove(first)
        first.close()
        polling.until(lambda: len(second.assignment()) == PARTITIONS, "all are upgraded")
        third = old.join(group, topic)
        polling.members.append(third)
        polling.until(lambda: len(second.assignment()) == PARTITIONS // 2, "a classic member is taken in again")
        polling.members.remove(second)
        second.close()
        polling.until(lambda: kind_of(newer, group) == "classic", "the last newer member has left")
        old.produce(topic, records(200, tag="last"))
        polling.until_received(600)
        third.close()

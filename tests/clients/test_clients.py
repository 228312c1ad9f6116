"""Each client library: create, produce, consume, groups, restart, delete and re-create, errors.

`make test-client-releases` also runs these tests with older releases of each library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.api import ALL_ACKS, COMPRESSIONS, Acks, BrokerError, Client
from tests.clients.confluent import Confluent
from tests.clients.conftest import CLIENTS, connect
from tests.clients.expectations import PARTITIONS, Polling, check_log, records
from tests.clients.releases import RELEASES
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

KINDS = [*CLIENTS, *(pytest.param(str(release), marks=pytest.mark.slow) for release in RELEASES)]


@pytest.fixture(scope="session", params=KINDS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Client]:
    """The newest release of each library in turn; in slow tests also older releases."""
    instance = connect(request.param, broker.bootstrap)
    yield instance
    instance.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_each_compression_arrives_whole(client: Client, broker: BrokerProcess, topic: str, compression: str) -> None:
    """Records that one client writes are read back unchanged by that client and by another one."""
    if compression in client.lacks:
        pytest.skip(f"this release of {client.name} has no {compression}")
    client.create_topic(topic, PARTITIONS)
    sent = records(400)
    offsets = client.produce(topic, sent, compression=compression)
    check_log(client.read(topic, PARTITIONS, len(sent)), sent, offsets)
    other = Confluent(broker.bootstrap)
    check_log(other.read(topic, PARTITIONS, len(sent)), sent)


@pytest.mark.parametrize("acks", ALL_ACKS, ids=str)
def test_each_kind_of_acknowledgement(client: Client, topic: str, acks: Acks) -> None:
    """Two producers one after the other: an idempotent one must start its sequence again."""
    if str(acks) in client.lacks:
        pytest.skip(f"this release of {client.name} has no {acks}")
    client.create_topic(topic, PARTITIONS)
    ready, first, second = (records(100, tag=tag) for tag in ("ready", "first", "second"))
    # A partition may take a moment to accept records, and acks=0 does not show it: wait with an acknowledged write.
    client.produce(topic, ready)
    for batch in (first, second):
        offsets = client.produce(topic, batch, acks)
        assert (set(offsets) == {-1}) == (acks.acks == "0")
        # Without an acknowledgement the records may still be on their way when the producer has gone: wait for them.
        client.read(topic, PARTITIONS, 200 if batch is first else 300)
    check_log(client.read(topic, PARTITIONS, 300), [*ready, *first, *second])


def test_a_group_shares_partitions_and_rebalances(client: Client, topic: str) -> None:
    """One member has all partitions; a second one gets its share; the first one gets all back when the second
    leaves."""
    client.create_topic(topic, PARTITIONS)
    group = f"{topic}-group"
    client.produce(topic, records(200))
    polling = Polling(client.join(group, topic))
    polling.until_assigned()
    polling.until_received(200)
    joined = client.join(group, topic)
    polling.members.append(joined)
    polling.until_assigned()
    client.produce(topic, records(200, tag="more"))
    polling.until_received(400)
    polling.members.remove(joined)
    joined.close()
    polling.until_assigned()
    polling.members[0].close()


@pytest.mark.parametrize("crash", [False, True], ids=["clean stop", "kill -9"])
@pytest.mark.parametrize("kind", KINDS)
def test_commits_are_resumed_after_a_restart(kind: str, crash: bool, start_broker: StartBroker, topic: str) -> None:
    """After the broker returns, a group continues exactly at its commit, and no acknowledged record is missing."""
    broker = start_broker()
    client = connect(kind, broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    sent = records(200)
    client.produce(topic, sent)
    group = f"{topic}-group"
    member = client.join(group, topic)
    polling = Polling(member)
    polling.until_received(200)
    committed = {0: 50, 1: 25, 2: 1, 3: 0}
    member.commit(committed)
    member.close()
    client.close()

    broker.restart(crash=crash)
    client = connect(kind, broker.bootstrap)
    check_log(client.read(topic, PARTITIONS, 200), sent)
    polling = Polling(client.join(group, topic))
    polling.until_received(200 - sum(committed.values()))
    for partition, start in committed.items():
        offsets = [each.offset for each in polling.received if each.partition == partition]
        assert offsets == list(range(start, 50))
    polling.members[0].close()
    client.produce(topic, records(8, tag="after"))
    client.close()


def test_a_topic_is_deleted_and_created_again(client: Client, topic: str) -> None:
    """The second incarnation starts empty: offsets from 0, none of the old records."""
    client.create_topic(topic, PARTITIONS)
    client.produce(topic, records(100, tag="old"))
    client.delete_topic(topic)
    client.create_topic(topic, PARTITIONS)
    sent = records(40, tag="new")
    offsets = client.produce(topic, sent)
    check_log(client.read(topic, PARTITIONS, len(sent)), sent, offsets)


def test_wrong_names_and_counts_are_refused_by_name(client: Client, topic: str) -> None:
    """Each client reports the broker's refusals to its user under Kafka's own names."""
    client.create_topic(topic, 1)
    refusals: dict[str, Callable[[], object]] = {
        "TOPIC_ALREADY_EXISTS": lambda: client.create_topic(topic, 1),
        "INVALID_PARTITIONS": lambda: client.create_topic(f"{topic}-none", 0),
        "INVALID_TOPIC_EXCEPTION": lambda: client.create_topic("no spaces allowed", 1),
        "UNKNOWN_TOPIC_OR_PARTITION": lambda: client.delete_topic(f"{topic}-unknown"),
    }
    for expected, refused in refusals.items():
        with pytest.raises(BrokerError) as problem:
            refused()
        assert problem.value.name == expected

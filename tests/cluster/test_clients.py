"""Each client library with a cluster, of which one broker is killed while producers and groups run. `make
test-cluster-clients` runs all of tests/clients against a cluster; this file has the parts that need several brokers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from examples.roundtrip import connector
from examples.roundtrip import spark as roundtrip_spark
from pybroker.client import blocking
from pybroker.testing.cluster import Store
from tests.clients.api import ALL_ACKS, Client, Member, Producer
from tests.clients.confluent import Confluent
from tests.clients.conftest import CLIENTS
from tests.clients.expectations import PARTITIONS, Polling, check_log, records
from tests.support.cluster import BrokerCluster, described, running_cluster, until
from tests.support.cluster_state import state_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# A time limit that expires inside a call of Spark leaves a session behind, so the limit is long.
pytestmark = pytest.mark.timeout(900)

BEFORE = 40
COMMITTED = dict.fromkeys(range(PARTITIONS), 6)
IDEMPOTENT = ALL_ACKS[3]


@dataclass
class AtWork:
    """A client that is running while the test kills a broker."""

    client: Client
    topic: str
    producer: Producer
    member: Member
    polling: Polling
    offsets: list[int] = field(default_factory=list)

    def close(self) -> None:
        self.producer.close()
        self.member.close()
        self.client.close()


@dataclass
class SparkCopy:
    """Spark's own connector while it runs: a stream copies all records of one topic to another."""

    client: Confluent
    source: str
    target: str
    query: StreamingQuery
    later: ExitStack

    def close(self) -> None:
        self.later.close()


class RunningClients(NamedTuple):
    """The clients that run while a broker is killed."""

    clients: dict[str, Future[AtWork]]
    spark: Future[SparkCopy]


def begin(kind: str, cluster: BrokerCluster) -> AtWork:
    """Start a client: it creates a topic, produces, consumes in a group, and commits."""
    client = CLIENTS[kind](cluster.bootstrap)
    topic = f"work-of-{kind}"
    client.create_topic(topic, PARTITIONS)
    producer = client.producer(IDEMPOTENT)
    offsets = producer.send(topic, records(BEFORE))
    member = client.join(f"{topic}-group", topic)
    polling = Polling(member)
    polling.until_received(BEFORE)
    member.commit(COMMITTED)
    return AtWork(client, topic, producer, member, polling, offsets)


def begin_to_copy(cluster: BrokerCluster, folder: Path) -> SparkCopy:
    """Start the stream; return when it has copied some records."""
    client, source, target = Confluent(cluster.bootstrap), "source-of-spark", "target-of-spark"
    for topic in (source, target):
        client.create_topic(topic, PARTITIONS)
    client.produce(source, records(BEFORE), IDEMPOTENT)
    # Kafka's admin client, which Spark asks for offsets, keeps a request for a leader that has died until this timeout.
    timeouts = dict.fromkeys(("kafka.default.api.timeout.ms", "kafka.request.timeout.ms"), "10000")
    servers = {"kafka.bootstrap.servers": cluster.bootstrap, "includeHeaders": "true", **timeouts}
    with ExitStack() as later:
        # A failed task is not repeated: it might write twice. The query reports the cause.
        session = roundtrip_spark.session(connector.connector_jars(), master="local[2]")
        later.callback(session.stop)
        incoming = session.readStream.format("kafka").options(**servers, startingOffsets="earliest")
        query = (
            incoming.option("subscribe", source)
            .load()
            .select("partition", "key", "value", "headers")
            .writeStream.format("kafka")
            .options(**servers, topic=target, checkpointLocation=str(folder))
            .start()
        )
        later.callback(query.stop)
        client.read(target, PARTITIONS, BEFORE)
        return SparkCopy(client, source, target, query, later.pop_all())


def a_leader(cluster: BrokerCluster, topic: str) -> int:
    """Return the leader of a partition that is not the controller: kafka-python's admin client does not look for
    another controller when connections to the known one are refused."""
    with (
        blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin,
        state_of(cluster) as state,
    ):
        found: list[int] = []

        def others() -> bool:
            leaders = {one.leader.id for one in described(admin, topic).partitions if one.leader is not None}
            found[:] = sorted(leaders - {state.controller()})
            return bool(found) and state.controller() is not None

        until(others)
        return found[0]


@pytest.fixture(scope="module")
def at_work(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[RunningClients]:
    """All clients, each as a future. They were running when one of four brokers, which led a partition, was killed."""
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with running_cluster(tmp_path_factory.mktemp("clients"), 4, settings, store=store) as cluster:
        with ThreadPoolExecutor(len(CLIENTS) + 1) as threads:
            spark = threads.submit(begin_to_copy, cluster, tmp_path_factory.mktemp("checkpoint"))
            clients = {kind: threads.submit(begin, kind, cluster) for kind in CLIENTS}
        first = next(one.result() for one in clients.values() if one.exception() is None)
        cluster.brokers[a_leader(cluster, first.topic)].kill()
        yield RunningClients(clients, spark)
        for one in (spark, *clients.values()):
            if one.exception() is None:
                one.result().close()


@pytest.mark.parametrize("kind", CLIENTS)
def test_work_goes_on_when_a_broker_is_killed(at_work: RunningClients, kind: str) -> None:
    """The open producer continues, no record is lost or duplicated, and the group continues and commits. While the
    broker is down, a topic is deleted and created again."""
    work = at_work.clients[kind].result()
    topic, client = work.topic, work.client
    before, after = records(BEFORE), records(BEFORE, tag="after")
    offsets = [*work.offsets, *work.producer.send(topic, after)]
    check_log(client.read(topic, PARTITIONS, 2 * BEFORE), [*before, *after], offsets)
    work.polling.until_received(2 * BEFORE)
    ends = dict.fromkeys(range(PARTITIONS), 2 * BEFORE // PARTITIONS)
    work.member.commit(ends)
    work.member.close()
    work.member = client.join(f"{topic}-group", topic)
    late = Polling(work.member)
    more = records(4, tag="late")
    work.producer.send(topic, more)
    late.until_received(4)
    assert {(one.partition, one.offset) for one in late.received} == set(ends.items()), "what was committed came again"

    name = f"again-{kind}"
    client.create_topic(name, PARTITIONS)
    client.produce(name, records(20, tag="old"))
    client.delete_topic(name)
    client.create_topic(name, PARTITIONS)
    sent = records(20, tag="new")
    offsets = client.produce(name, sent)
    check_log(client.read(name, PARTITIONS, 20), sent, offsets)


def test_a_stream_of_spark_goes_on_when_a_broker_is_killed(at_work: RunningClients) -> None:
    """The stream finds the new leaders for reading and writing. No record is lost, duplicated or out of order."""
    work = at_work.spark.result()
    after = records(BEFORE, tag="after")
    work.client.produce(work.source, after, IDEMPOTENT)
    work.query.processAllAvailable()
    copied = work.client.read(work.target, PARTITIONS, 2 * BEFORE)
    check_log(copied, [*records(BEFORE), *after])

"""Leaders die during Spark's writes to a cluster: the writes continue at other leaders, and every row is written
once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.jobs import OURS, PARTITIONS, Jobs
from tests.support.cluster import BrokerCluster, running_cluster
from tests.support.cluster_ingest import await_all_in_sync, create, leaders, records, staged_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 2000
WAIT_S = 120.0
SCHEMA = "key string, value string"
SMALL = {"kafka_batch_size": "1000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with running_cluster(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.fixture
def cluster_jobs(spark: SparkSession, cluster: BrokerCluster) -> Iterator[Jobs]:
    """Jobs on all brokers; killed brokers are restarted after the test."""
    yield Jobs(spark, cluster.bootstrap)
    for broker in cluster.brokers.values():
        if not broker.running:
            broker.start()


def until(condition: Path) -> None:
    give_up = time.monotonic() + WAIT_S
    while not condition.exists():
        assert time.monotonic() < give_up, f"{condition.name}: it did not come to pass"
        time.sleep(0.02)


def kill_leader(cluster: BrokerCluster, topic: str, partition: int) -> None:
    broker = cluster.brokers[leaders(cluster, topic)[partition]]
    broker.kill()


def check(jobs: Jobs, cluster: BrokerCluster, topic: str, values: list[str]) -> None:
    """Check that every row exists once, also after every broker is back."""
    assert jobs.values(topic) == values
    for broker in cluster.brokers.values():
        if not broker.running:
            broker.start()
    await_all_in_sync(cluster, topic)
    assert jobs.values(topic) == values


@pytest.mark.checklist("R33")
def test_a_job_goes_on_when_a_leader_dies_in_the_middle(
    cluster_jobs: Jobs, cluster: BrokerCluster, topic: str, tmp_path: Path
) -> None:
    jobs, begun, go = cluster_jobs, tmp_path / "begun", tmp_path / "go"
    create(cluster, topic, PARTITIONS, {"min.insync.replicas": "2"})

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            yield batch
            if context.partitionId() == 0 and number == 2:
                begun.touch()
                until(go)

    def die() -> None:
        try:
            until(begun)
            give_up = time.monotonic() + WAIT_S
            while not all(staged_files(cluster, broker) for broker in cluster.brokers):
                assert time.monotonic() < give_up, "nothing is staged on some broker"
                time.sleep(0.02)
            kill_leader(cluster, topic, 0)
        finally:
            go.touch()

    jobs.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    rows = jobs.rows(COUNT).mapInArrow(wait, SCHEMA)
    with ThreadPoolExecutor(1) as beside:
        dying = beside.submit(die)
        jobs.write(rows, topic, mode="exactly-once", **SMALL)
        dying.result()
    check(jobs, cluster, topic, sorted(f"v-{number}" for number in range(COUNT)))


@pytest.mark.checklist("R33")
def test_a_streams_batches_are_there_once_though_leaders_die_between_and_under_them(
    cluster_jobs: Jobs, cluster: BrokerCluster, topic: str, tmp_path: Path
) -> None:
    jobs, source = cluster_jobs, f"{topic}-source"
    for name in (source, topic):
        create(cluster, name, PARTITIONS, {"min.insync.replicas": "2"})
    jobs.write(jobs.rows(COUNT), source, OURS, mode="exactly-once")
    frame = jobs.stream(source, OURS, maxOffsetsPerTrigger=str(COUNT // 8)).select("key", "value")

    def die() -> None:
        give_up = time.monotonic() + WAIT_S
        while not any(records(cluster, topic, PARTITIONS)):
            assert time.monotonic() < give_up, "the first batch did not come"
            time.sleep(0.02)
        kill_leader(cluster, topic, 0)

    with ThreadPoolExecutor(1) as beside:
        dying = beside.submit(die)
        progress = jobs.run(frame, tmp_path / "checkpoint", OURS, **jobs.sink(topic))
        dying.result()
    assert len(progress) >= 8
    check(jobs, cluster, topic, sorted(f"v-{number}" for number in range(COUNT)))

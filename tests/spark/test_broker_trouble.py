"""The broker dies during a Spark job: if it returns, no record is lost or duplicated; if not, the job fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import StartBroker
from tests.spark.jobs import PARTITIONS, Jobs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 2000
WAIT_S = 120.0
SCHEMA = "key string, value string"


def _save(jobs: Jobs, topic: str, begun: Path, go: Path, **options: str) -> None:
    """A job whose first task stops after some batches, until it is released."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            yield batch
            if context.partitionId() == 0 and number == 2:
                begun.touch()
                give_up = time.monotonic() + WAIT_S
                while not go.exists() and time.monotonic() < give_up:
                    time.sleep(0.02)

    jobs.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    rows = jobs.rows(COUNT).mapInArrow(wait, SCHEMA)
    jobs.write(rows, topic, mode="exactly-once", kafka_batch_size="1000", **options)


def _when(begun: Path, go: Path, happens: Callable[[], object]) -> None:
    """Run an action beside the job."""
    give_up = time.monotonic() + WAIT_S
    while not begun.exists():
        assert time.monotonic() < give_up, "the job did not begin"
        time.sleep(0.02)
    try:
        happens()
    finally:
        go.touch()


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """Run a function in a thread that lives as long as the test: a broker ends with the thread that started it
    (PR_SET_PDEATHSIG), and Spark finds Python sources only in the thread of its session, which is the test's."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_broker_that_is_killed_during_a_job_costs_nothing(
    jobs: Jobs, topic: str, start_broker: StartBroker, tmp_path: Path, beside: ThreadPoolExecutor
) -> None:
    """The broker is killed by kill -9 and restarted while rows are staged: acknowledged rows are still staged, the
    others are sent again."""
    broker = start_broker()
    there = Jobs(jobs.spark, broker.bootstrap)
    there.create(topic)
    begun, go = tmp_path / "begun", tmp_path / "go"
    restarted = beside.submit(_when, begun, go, lambda: broker.restart(crash=True))
    _save(there, topic, begun, go)
    restarted.result(WAIT_S)
    assert sum(there.client.end_offsets(topic, PARTITIONS).values()) == COUNT
    assert there.read(topic).select("value").distinct().count() == COUNT


def test_a_broker_that_stays_away_fails_the_job_in_bounded_time(
    jobs: Jobs, topic: str, start_broker: StartBroker, tmp_path: Path, beside: ThreadPoolExecutor
) -> None:
    """`delivery.timeout.ms` bounds each attempt of a task and each step of the driver; the message names the broker."""
    broker = start_broker()
    there = Jobs(jobs.spark, broker.bootstrap)
    there.create(topic)
    begun, go = tmp_path / "begun", tmp_path / "go"
    killed = beside.submit(_when, begun, go, broker.kill)
    with pytest.raises(Exception, match=f"127.0.0.1:{broker.port}"):
        _save(there, topic, begun, go, kafka_delivery_timeout_ms="2000")
    killed.result(WAIT_S)

"""Executors and drivers are killed, and attempts run beside each other: each row is written once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.spark import ingest_steps
from pybroker.spark.cluster_requests import SparkCluster
from tests.conftest import StartBroker
from tests.spark import clusters
from tests.spark.jobs import PARTITIONS, Jobs
from tests.spark.one_job import Job
from tests.support.gate import Gate, Stopped
from tests.support.processes import kill_all, tree

pytestmark = pytest.mark.timeout(1800)

COUNT = 4000
WAIT_S = 600.0
POLL_S = 0.05
EXECUTORS = "local-cluster[2,1,1024]"
IN_ONE = "local[2,4]"


def _listed(jobs: Jobs, topic_id: str, ingest_id: str) -> list[tuple[int, int]]:
    """Return (state, rows) of the ingest, as the broker reports it."""
    found = ingest_steps.listed(SparkCluster({"bootstrap.servers": jobs.bootstrap}), [topic_id], ingest_id)
    return [(each.state, each.rows) for each in found]


def _until(condition: Callable[[], bool], child: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a condition that the driver must bring about."""
    give_up = time.monotonic() + WAIT_S
    while not condition():
        told = log.read_text(errors="replace")[-3000:]
        assert child.poll() is None, f"the driver ended ({child.returncode}):\n{told}"
        assert time.monotonic() < give_up, f"nothing happened:\n{told}"
        time.sleep(POLL_S)


def _ended(child: subprocess.Popen[bytes], log: Path) -> None:
    assert child.wait(WAIT_S) == 0, log.read_text(errors="replace")[-3000:]


def _exactly_once(jobs: Jobs, topic: str, topic_id: str, ingest_id: str) -> None:
    """Check the number of rows by the broker's count of the ingest, by its end offsets, and by the records that
    confluent-kafka reads."""
    assert _listed(jobs, topic_id, ingest_id) == [(ingest_steps.LoadState.COMMITTED, COUNT)]
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == COUNT
    found = jobs.client.read(topic, PARTITIONS, COUNT)
    assert sorted(each.value or "" for each in found) == sorted(f"v-{number}" for number in range(COUNT))
    assert all(each.key == f"v-key-{int((each.value or '')[2:]) % 97}" for each in found)


def _again(jobs: Jobs, topic: str, ingest_id: str) -> None:
    """Run the same load with a driver that survives."""
    jobs.write(jobs.rows(COUNT), topic, mode="exactly-once", ingestId=ingest_id)


def _is_executor(command: str) -> bool:
    return "CoarseGrainedExecutorBackend" in command


@pytest.mark.slow
def test_an_executor_that_is_killed_costs_nothing(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """kill -9 of the process while its task has staged rows: the task runs again in another executor."""
    topic_id = jobs.create(topic)
    job = Job(EXECUTORS, jobs.bootstrap, topic, topic, COUNT, str(tmp_path), held=True)
    log = tmp_path / "driver.log"
    with clusters.driver(job.command(), tmp_path, clusters.environment(tmp_path)) as child:
        _until((tmp_path / "held").exists, child, log)
        _until(lambda: any(rows > 0 for _, rows in _listed(jobs, topic_id, topic)), child, log)
        os.kill(int((tmp_path / "held").read_text()), signal.SIGKILL)
        _ended(child, log)
    assert (tmp_path / "again").exists()
    _exactly_once(jobs, topic, topic_id, topic)
    _again(jobs, topic, topic)
    _exactly_once(jobs, topic, topic_id, topic)


@pytest.fixture
def gated(jobs: Jobs, start_broker: StartBroker) -> Iterator[tuple[Gate, Jobs]]:
    """A broker that clients reach only through a gate, and jobs that use it."""
    gate = Gate()
    try:
        broker = start_broker({"advertised.listeners": f"PLAINTEXT://{gate.address}"})
        gate.target = broker.port
        yield gate, Jobs(jobs.spark, gate.address)
    finally:
        gate.close()


@pytest.mark.parametrize(
    ("master", "stopped"),
    [
        (IN_ONE, "answer"),
        pytest.param(IN_ONE, "request", marks=pytest.mark.slow),
        pytest.param(EXECUTORS, "answer", marks=pytest.mark.slow),
        pytest.param(EXECUTORS, "request", marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_is_killed_around_its_commit_may_be_run_again(
    topic: str, tmp_path: Path, gated: tuple[Gate, Jobs], master: str, stopped: Stopped
) -> None:
    """kill -9 when all rows are staged and the commit was sent: either it has not arrived, or it was executed and the
    response is lost. Before it no row is in the topic, after it all rows; the same load again leaves each row there
    once."""
    gate, there = gated
    topic_id = there.create(topic)
    job = Job(master, gate.address, topic, topic, COUNT, str(tmp_path))
    gate.stop(ingest_steps.COMMIT, stopped)
    with clusters.driver(job.command(), tmp_path, clusters.environment(tmp_path)) as child:
        _until(gate.reached.is_set, child, tmp_path / "driver.log")
        # With executors on other machines, these continue until they notice that the driver is gone.
        kill_all(tree(child.pid, spared=_is_executor))
        assert child.wait(WAIT_S) == -signal.SIGKILL
    gate.pass_on()
    state, there_now = (
        (ingest_steps.LoadState.COMMITTED, COUNT) if stopped == "answer" else (ingest_steps.LoadState.OPEN, 0)
    )
    assert _listed(there, topic_id, topic) == [(state, COUNT)]
    assert sum(there.client.end_offsets(topic, PARTITIONS).values()) == there_now
    for _ in range(2):
        _again(there, topic, topic)
        _exactly_once(there, topic, topic_id, topic)


@pytest.mark.slow
def test_a_speculative_attempt_beside_a_slow_one_counts_alone(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """A task hangs after it has staged rows. Spark starts it again on the other host, takes that result and kills the
    first. No row of the killed attempt is visible."""
    topic_id = jobs.create(topic)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
    }
    with clusters.standalone(tmp_path) as master:
        job = Job(master, jobs.bootstrap, topic, topic, COUNT, str(tmp_path), held=True, conf=speculation)
        with clusters.driver(job.command(), tmp_path, clusters.environment(tmp_path / "driver")) as child:
            _ended(child, tmp_path / "driver.log")
    assert (tmp_path / "held").exists()
    assert (tmp_path / "again").exists()
    _exactly_once(jobs, topic, topic_id, topic)

"""`pybroker.testing.Cluster`: a cluster's life from a test's point of view."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.testing import BrokerProcessError, Cluster
from pybroker.testing import cluster as testing_cluster
from pybroker.testing.cluster import ClusterBroker, Store
from pybroker.testing.download_cache import DownloadError
from pybroker.testing.maven import pinned_jars
from tests.cli.test_broker import alive, gone

pytest_plugins = "pytester"
LIMIT_S = 120.0
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.fixture(scope="module", params=["quorum", "zookeeper"])
def shared(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(3, {"num.partitions": 2}, racks=("a", "b", "c"), store=request.param) as cluster:
        yield cluster


def test_life_of_its_brokers(shared: Cluster) -> None:
    addresses = shared.bootstrap.split(",")
    assert len(set(addresses)) == 3
    with blocking.AdminClient({"bootstrap.servers": shared.bootstrap}) as admin:
        assert {(node.id, node.rack) for node in admin.describe_cluster().nodes} == {(1, "a"), (2, "b"), (3, "c")}
        admin.create_topics([NewTopic("replicated")]).all()
        shared.settle()
        described = admin.describe_topics(["replicated"]).all_topic_names()["replicated"]
        assert [len(one.replicas) for one in described.partitions] == [3, 3]
    controller = shared.controller
    assert controller is not None
    shared.kill(controller)
    shared.settle()
    successor = shared.controller
    assert successor not in (None, controller)
    shared.stop(successor)
    shared.start_broker(controller)
    shared.start_broker(successor)
    shared.settle()
    assert shared.bootstrap.split(",") == addresses, "ports outlive restarts"
    assert len({broker.cluster_id for broker in shared.brokers.values()}) == 1
    with blocking.AdminClient({"bootstrap.servers": shared.brokers[controller].bootstrap}) as admin:
        assert list(admin.list_topics()) == ["replicated"]


def test_under_tls() -> None:
    """Clients and brokers use TLS; a restarted broker is accepted."""
    with Cluster(3, {"default.replication.factor": 2}, tls=True) as cluster:
        settings = cluster.client_settings
        assert settings["security.protocol"] == "SSL"
        with blocking.AdminClient(settings) as admin:
            admin.create_topics([NewTopic("secret", 1, 3)])
            cluster.settle()
            leader = admin.describe_topics(["secret"]).all_topic_names()["secret"].partitions[0].leader
        assert leader is not None
        cluster.kill(leader.id)
        cluster.settle()
        cluster.start_broker(leader.id)
        cluster.settle()
        errors: list[object] = []
        producer = confluent_kafka.Producer(settings)
        producer.produce("secret", b"librdkafka", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(LIMIT_S) == 0
        assert errors == [None]


def test_new_cluster_has_three_voters_and_takes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM is needed; the metadata log survives the loss of any broker from the first moment."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with Cluster(3) as cluster:
        for broker in cluster.brokers.values():
            assert "voters of the metadata log: 1, 2, 3 " in broker.log_tail()
        with pytest.raises(ValueError, match=r"this cluster has no ZooKeeper; pass store=.zookeeper."):
            _ = cluster.zookeeper
        controller = cluster.controller
        assert controller is not None
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics([NewTopic("first", 1, 3)]).all()
        cluster.kill(controller)
        with blocking.Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
            assert producer.send("first", b"record").offset == 0


def test_even_number_of_brokers_has_one_that_does_not_vote() -> None:
    with Cluster(2) as cluster:
        cluster.kill(2)
        cluster.settle()
        assert cluster.controller == 1
        cluster.start_broker(2)
        cluster.settle()


def test_paused_controller_is_replaced(shared: Cluster) -> None:
    paused = shared.controller
    assert paused is not None
    shared.pause(paused)
    shared.settle()
    assert shared.controller not in (None, paused)
    shared.resume(paused)
    shared.settle()
    with blocking.AdminClient({"bootstrap.servers": shared.brokers[paused].bootstrap}) as admin:
        assert {node.id for node in admin.describe_cluster().nodes} == {1, 2, 3}


def test_brokers_outlive_zookeeper() -> None:
    with Cluster(2, store="zookeeper") as cluster:
        cluster.zookeeper.kill()
        assert not cluster.zookeeper.running
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            assert len(admin.describe_cluster().nodes) == 2
        cluster.zookeeper.start()
        cluster.settle()


@pytest.mark.parametrize(("store", "size"), [("quorum", 3), ("zookeeper", 1)])
def test_data_directory_of_the_callers_own(store: Store, size: int, tmp_path: Path) -> None:
    with Cluster(size, data_dir=tmp_path, store=store) as cluster:
        cluster_id, pids = cluster.cluster_id, [broker.pid for broker in cluster.brokers.values()]
        if store == "zookeeper":
            pids.append(cluster.zookeeper.pid)
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics([NewTopic("kept")]).all()
    assert not any(map(alive, pids))
    with Cluster(size, data_dir=tmp_path, store=store) as cluster:
        assert cluster.cluster_id == cluster_id
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            assert list(admin.list_topics()) == ["kept"]


def test_it_has_settled_when_all_brokers_show_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other brokers see a new topic, or the controller, a moment after the broker that got the request."""
    old, new = Uuid.random(), Uuid.random()
    looks: list[list[object]] = [
        [None, (1, {"t": old})],
        [(2, {"t": old}), (1, {"t": old})],
        [(1, {}), (1, {"t": old})],
        [(1, {"t": new}), (1, {"t": old})],
        [(1, {"t": new}), (1, {"t": new})],
    ]
    answers = iter([answer for look in looks for answer in look])
    monkeypatch.setattr(ClusterBroker, "running", True)
    monkeypatch.setattr(ClusterBroker, "bootstrap", "nowhere")
    monkeypatch.setattr(testing_cluster, "_seen", lambda *_: next(answers))
    Cluster(2, data_dir=tmp_path).settle()
    assert next(answers, "none") == "none"


def test_misuse_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        Cluster(0)
    with pytest.raises(ValueError, match=r"no such store: .raft.; pass .quorum. or .zookeeper."):
        Cluster(1, store="raft")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 brokers but 1 racks; pass one rack per broker"):
        Cluster(3, racks=("a",))
    cluster = Cluster(1, data_dir=tmp_path)
    with pytest.raises(BrokerProcessError, match="no broker is running"):
        _ = cluster.controller
    with pytest.raises(BrokerProcessError, match=r"did you mean num\.partitions\?"):
        Cluster(1, {"num.partition": 3}, data_dir=tmp_path).start()
    cluster.close()


def test_what_is_not_the_expected_zookeeper_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine between this one and Maven Central can inject code into a test."""
    monkeypatch.setenv("PYBROKER_TEST_CACHE", str(tmp_path / "cache"))
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "mvn").write_text(
        '#!/bin/sh\nfor each in "$@"; do case $each in -DoutputDirectory=*) echo evil > "${each#*=}/zookeeper.jar";; '
        "esac; done\n"
    )
    (commands / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    pom, checksums = tmp_path / "pom.xml", tmp_path / "checksums"
    pom.write_text("<project/>")
    checksums.write_text(f"{'0' * 64}  zookeeper.jar\n{'1' * 64}  jute.jar\n")
    for _ in range(2):
        with pytest.raises(DownloadError, match=r"unexpected files from Maven Central: jute\.jar, zookeeper\.jar"):
            pinned_jars("tested", pom, checksums)


PARENT = """
import sys, time
from pybroker.testing import Cluster
cluster = Cluster(1, store="zookeeper").start()
print(cluster.zookeeper.pid, cluster.brokers[1].pid, flush=True)
if sys.argv[1] == "fork":
    import os
    if os.fork() == 0:
        time.sleep(600)
if sys.argv[1] != "return":
    time.sleep(600)
"""


@pytest.mark.parametrize("how", ["fork", "return"])
def test_it_ends_with_its_parent(how: str, tmp_path: Path) -> None:
    """The parent is killed by kill -9 while its forked child keeps the parent's files open; another parent forgets to
    close the cluster."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # the parent that would remove them was killed
    )
    try:
        assert parent.stdout is not None
        pids = [int(each) for each in parent.stdout.readline().split()]
        assert len(pids) == 2
        if how != "return":
            assert all(map(alive, pids))
            parent.kill()
        parent.wait(LIMIT_S)
        assert all(map(gone, pids))
    finally:
        if how == "fork":
            os.killpg(parent.pid, signal.SIGKILL)
    if how == "return":
        assert not list(tmp_path.glob("pybroker-*"))


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", [0, 1])
def test_examples_of_the_page(number: int) -> None:
    exec(compile(examples()[number], str(PAGE), "exec"), {})


def test_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(examples()[2] + "    assert False\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*pybroker_cluster logs*", "--- broker 2", "*pybroker is ready: *"])

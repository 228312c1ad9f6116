"""The cluster id of a broker (KIP-78): created once, stored, shown, never mixed up."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pybroker.broker.lifecycle.startup.store_opening import ALWAYS_THERE, get_or_generate_cluster_id
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import Node as StoreNode
from pybroker.broker.metadata.metadata_store import NoNodeError, Watch, ensure_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.offline.offline_directories import read_properties_of, write_properties_of
from pybroker.cluster_resource import ClusterResource, ClusterResourceListener
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequest_MetadataRequestTopic,
)
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.stopped import in_store
from tests.trouble.traffic import create
from tests.wire.client import WireClient

ALPHABET = re.compile(r"[a-zA-Z0-9_\-]+")


def cluster_id_of(broker: BrokerProcess) -> str:
    with WireClient(broker.port) as client:
        return str(client.call(MetadataRequest(topics=[]), 2).cluster_id)


async def with_store(directory: Path, data: bytes | None = None) -> str:
    """Start a broker after `data` was written to /cluster/id; return the cluster id."""
    store = await EmbeddedStore.open(directory)
    try:
        if data is not None:
            await ensure_path(store, "/cluster")
            await store.create(znodes.CLUSTER_ID, data)
        return await get_or_generate_cluster_id(store)
    finally:
        await store.close()


@pytest.mark.checklist(251, 252, 253, 260, 269, 270, 271, 272, 273, 281, 294)
def test_generated_once_and_kept(tmp_path: Path) -> None:
    first = asyncio.run(with_store(tmp_path / "a"))
    assert ALPHABET.fullmatch(first)
    assert str(Uuid.parse(first)) == first
    assert asyncio.run(with_store(tmp_path / "a")) == first
    assert asyncio.run(with_store(tmp_path / "b")) != first


@pytest.mark.checklist(270, "X30", "X31", "D13")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"version":1,"id":"vPeOCWypqUOSepEvx0cbog"}', "vPeOCWypqUOSepEvx0cbog"),
        (b'{"version":"1","id":"MkU3OEVBNTcwNTJENDM2Qk"}', "MkU3OEVBNTcwNTJENDM2Qk"),
        (b'{"id":"my-cluster_7"}', "my-cluster_7"),
    ],
)
def test_an_id_is_any_text_of_the_alphabet(tmp_path: Path, data: bytes, expected: str) -> None:
    assert asyncio.run(with_store(tmp_path, data)) == expected


@pytest.mark.checklist(260, "X30")
@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":1,"id":""}', b'{"id":"a b"}', b'{"id":"\xc3\xa4"}', b"[1]"])
def test_a_damaged_id_is_refused_and_not_replaced(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(znodes.DamagedNodeError, match="/cluster/id"):
        asyncio.run(with_store(tmp_path, data))


class Late:
    """A store whose clients all read before any of them has written: the worst possible race."""

    def __init__(self, store: EmbeddedStore, readers: asyncio.Barrier) -> None:
        self._store = store
        self._readers = readers
        self._first = True

    async def get(self, path: str, watch: Watch | None = None) -> StoreNode:
        if self._first:
            self._first = False
            await self._readers.wait()
            raise NoNodeError(path)
        return await self._store.get(path, watch)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        return await self._store.create(path, data, ephemeral=ephemeral, sequential=sequential)


@pytest.mark.checklist(271, 274, 275)
def test_brokers_that_start_together_agree(tmp_path: Path) -> None:
    async def race() -> tuple[set[str], str]:
        store = await EmbeddedStore.open(tmp_path)
        try:
            readers = asyncio.Barrier(16)
            ids = await asyncio.gather(
                *(get_or_generate_cluster_id(Late(store, readers)) for _ in range(16))  # type: ignore[arg-type]  # as much of a store as is used
            )
            return set(ids), znodes.decode_cluster_id((await store.get(znodes.CLUSTER_ID)).data)
        finally:
            await store.close()

    ids, stored = asyncio.run(race())
    assert ids == {stored}


@pytest.mark.checklist(
    251, 252, 254, 256, 257, 262, 265, 266, 267, 277, 278, 279, 280, 281, 285, 286, 287, 290, 293, 295, 297, 299
)
@pytest.mark.checklist(300, 302, 303, 304, 305, "D14", "D34", "D36", "X33")
def test_where_a_broker_shows_it(start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, port = tmp_path / "notes", free_port()
    monkeypatch.setenv("PYBROKER_TEST_REPORTER", str(notes))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    reporters = ",".join(f"tests.cluster_id.reporter:{name}" for name in ("Noting", "Plain", "Broken"))
    broker = start_broker(
        {
            "metric.reporters": f"{reporters},org.apache.kafka.common.metrics.JmxReporter",
            "metrics.listener": f"127.0.0.1:{port}",
        }
    )
    with WireClient(broker.port) as client:
        for version in range(14):
            answer = client.call(MetadataRequest(topics=[]), version)
            if version >= 2:
                assert ALPHABET.fullmatch(answer.cluster_id)
        cluster_id = answer.cluster_id
        # The response has the id even if every topic of the request fails.
        failing = [MetadataRequest_MetadataRequestTopic(name="no such topic!")]
        assert client.call(MetadataRequest(topics=failing), 9).cluster_id == cluster_id
        assert client.call(DescribeClusterRequest(), 1).cluster_id == cluster_id
        stranger = client.call(ApiVersionsRequest("t", "1", cluster_id="another", node_id=-1), 5)
        assert stranger.error_code == 129  # REBOOTSTRAP_REQUIRED (KIP-1242)
    console = broker.console.read_text()
    line = next(line for line in console.splitlines() if f"Cluster ID = {cluster_id}" in line)
    assert "INFO" in line
    # Check it right after the store is opened, before any other action.
    assert console.index(line) < console.index("became controller")
    assert "org.apache.kafka.common.metrics.JmxReporter is a Java class" in console
    assert "metric reporter failed class=Broken method=on_update" in console
    assert "class=Plain" not in console, "called without implementing the interface"
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120).read().decode()
    for name in ("kafka_cluster_cluster_clusterid_info", "kafka_server_kafkaserver_clusterid_info"):
        assert f'{name}{{cluster_id="{cluster_id}"}} 1' in metrics
    broker.stop()
    calls = [json.loads(line) for line in notes.read_text().splitlines()]
    assert calls[0] == ["init", None]
    assert calls[1][0] == "configure"
    assert calls[2:] == [["on_update", cluster_id], ["close", f'cluster_id="{cluster_id}"']]
    broker.start()
    assert cluster_id_of(broker) == cluster_id


@pytest.mark.checklist(271, 276)
def test_a_first_start_stores_the_id_before_anything_else(start_broker: StartBroker) -> None:
    """The id follows directly after the parents of all nodes, which one change of the store creates."""
    broker = start_broker()
    create(broker, "later", 1)
    broker.stop()

    async def everything(store: EmbeddedStore) -> dict[str, StoreNode]:
        return await store.subtree("/")

    nodes = in_store(broker.data_dir, everything)
    made = nodes[znodes.CLUSTER_ID].created_zxid
    before = {path for path, node in nodes.items() if node.created_zxid < made}
    parents = {path: {*map(str, Path(path).parents)} - {"/"} for path in ALWAYS_THERE}
    assert before - {"/"} == parents.keys() | set().union(*parents.values())
    assert made == 1 + max(nodes[path].created_zxid for path in before)
    assert {"/controller_epoch", znodes.topic_path("later")} <= nodes.keys() - before


@pytest.mark.checklist(257)
def test_a_reporter_that_is_not_there_stops_the_start(start_broker: StartBroker) -> None:
    with pytest.raises(RuntimeError, match=r"metric\.reporters=no\.such:Thing: ModuleNotFoundError"):
        start_broker({"metric.reporters": "no.such:Thing"})


def adopt(broker: BrokerProcess, cluster_id: str, directories: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pybroker",
            "cluster",
            "adopt-id",
            cluster_id,
            "--yes",
            "--set",
            f"log.dirs={directories}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


async def audit(directory: Path) -> list[dict[str, object]]:
    store = await EmbeddedStore.open(directory)
    try:
        return [json.loads(node.data) for node in (await store.subtree(znodes.AUDIT)).values()]
    finally:
        await store.close()


@pytest.mark.checklist(254, 255, 282, 307, "X29", "D35", "B9")
def test_data_of_another_cluster_is_refused_and_experts_may_adopt_it(start_broker: StartBroker, tmp_path: Path) -> None:
    second = tmp_path / "second"
    broker = start_broker({"log.dirs": f"{tmp_path / 'first'},{second}"})
    before = cluster_id_of(broker)
    in_use = adopt(broker, "other", f"{tmp_path / 'first'},{second}")
    assert in_use.returncode == 1
    assert "in use by a running broker" in in_use.stderr
    broker.stop()
    properties = read_properties_of(second)
    assert properties is not None
    write_properties_of(second, {**properties, "cluster.id": "elsewhere"})
    with pytest.raises(RuntimeError) as refused:
        broker.start()
    for part in (str(second), "cluster elsewhere", before, "pybroker cluster adopt-id"):
        assert part in str(refused.value)
    assert read_properties_of(second) == {**properties, "cluster.id": "elsewhere"}, "something was changed"

    wrong = adopt(broker, "not an id", f"{tmp_path / 'first'},{second}")
    assert wrong.returncode == 1
    assert "is not a cluster id" in wrong.stderr
    done = adopt(broker, "mine-by-hand_1", f"{tmp_path / 'first'},{second}")
    assert done.returncode == 0, done.stderr
    assert f"{before} -> mine-by-hand_1" in done.stdout
    (record,) = asyncio.run(audit(tmp_path / "first"))
    assert (record["command"], record["before"], record["after"]) == ("cluster adopt-id", before, "mine-by-hand_1")
    broker.start()
    assert cluster_id_of(broker) == "mine-by-hand_1"


@pytest.mark.checklist(282)
def test_an_id_can_be_set_before_the_first_start(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker({"log.dirs": str(tmp_path / "unused")})
    broker.stop()
    assert adopt(broker, "kept", str(tmp_path / "new")).returncode == 0
    broker.settings["log.dirs"] = str(tmp_path / "new")
    broker.start()
    assert cluster_id_of(broker) == "kept"


@pytest.mark.checklist(285, 286, 287)
def test_the_public_names() -> None:
    assert ClusterResource("a").cluster_id == "a"
    assert ClusterResource("a") == ClusterResource("a")
    with pytest.raises(AttributeError):
        ClusterResource("a").cluster_id = "b"  # type: ignore[misc]  # frozen: must raise
    with pytest.raises(TypeError):
        ClusterResourceListener()  # type: ignore[abstract]  # abstract: must raise

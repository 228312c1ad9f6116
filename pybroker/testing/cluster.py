"""`pybroker.testing.Cluster`: several brokers and their ZooKeeper, for tests and experiments.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(1)
        cluster.settle()             # the others have taken over the leaderships of broker 1

Every broker is a child process (`pybroker.Broker`), ZooKeeper a JVM; all of them end with this process. The first use
downloads ZooKeeper's jars from Maven Central and needs a JDK and Maven; later runs need only a JVM.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pybroker.testing.broker import Broker, BrokerProcessError
from pybroker.testing.certificate import Certificate
from pybroker.testing.zookeeper.server import ZooKeeper

if TYPE_CHECKING:
    from pybroker.native import Uuid

BETWEEN = "BETWEEN"
"""The inter-broker listener."""

SESSION_MS = 2_000
"""ZooKeeper session timeout: after this time the cluster notices the loss of a killed broker. The product's default is
6 s.
"""

SETTLE_SECONDS_MAX = 120.0
REPLICAS = 3
POLL_S = 0.02


def cluster_settings(broker_id: int, connect: str, port: int = 0, between_port: int = 0) -> dict[str, str]:
    """Return the settings of a broker in a cluster on this machine; port 0 takes a free port at each start."""
    return {
        "node.id": str(broker_id),
        "metadata.store": "zookeeper",
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},{BETWEEN}://127.0.0.1:{between_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{BETWEEN}:PLAINTEXT",
        "inter.broker.listener.name": BETWEEN,
    }


def tls_settings(port: int, certificate: Certificate) -> dict[str, str]:
    """Return settings over `cluster_settings` for TLS: a peer with the certificate counts as a broker."""
    return {
        "listeners": f"SSL://127.0.0.1:{port},{BETWEEN}://127.0.0.1:0",
        "listener.security.protocol.map": f"SSL:SSL,{BETWEEN}:SSL",
        f"listener.name.{BETWEEN.lower()}.ssl.client.auth": "required",
        **certificate.settings(),
    }


class ClusterBroker(Broker):
    """One broker of a cluster; otherwise as `pybroker.Broker`. Keeps its client port and data across restarts."""

    def __init__(
        self,
        broker_id: int,
        connect: str,
        settings: Mapping[str, object],
        data_dir: Path,
        certificate: Certificate | None = None,
    ) -> None:
        super().__init__(settings, data_dir=data_dir)
        self.broker_id = broker_id
        self._connect = connect
        self._certificate = certificate

    def defaults(self) -> dict[str, str]:
        settings = super().defaults() | cluster_settings(self.broker_id, self._connect, self._port)
        return settings if self._certificate is None else settings | tls_settings(self._port, self._certificate)


class _Running:
    """Resources released even if the owner drops the cluster."""

    def __init__(self) -> None:
        self.zookeeper: ZooKeeper | None = None
        self.temporary: str | None = None

    def clean(self) -> None:
        if self.zookeeper is not None:
            self.zookeeper.kill()
        if self.temporary is not None:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.temporary = None


class Cluster:
    """Brokers 1 to `brokers`. Use it as a context manager (also `async with`), or call `start()` and `close()`.

    settings: for every broker, under Kafka's names; they override the settings of this class. racks: of the brokers, in
    order. data_dir: a directory that is kept; None = a temporary one, removed by `close()`. tls: clients and brokers
    use TLS, with a new certificate; `client_settings` has the clients' settings.

    Topics get three replicas and `min.insync.replicas=2`, as in a durable production cluster. A smaller cluster has as
    many replicas as brokers, and `min.insync.replicas=1`.
    """

    def __init__(
        self,
        brokers: int = REPLICAS,
        settings: Mapping[str, object] | None = None,
        *,
        racks: tuple[str, ...] = (),
        data_dir: str | os.PathLike[str] | None = None,
        tls: bool = False,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster needs at least one broker")
        if racks and len(racks) != brokers:
            raise ValueError(f"{brokers} brokers but {len(racks)} racks; pass one rack per broker")
        self._running = _Running()
        self._finalizer = weakref.finalize(self, self._running.clean)
        if data_dir is None:
            self._running.temporary = data_dir = tempfile.mkdtemp(prefix="pybroker-cluster-")
        folder = Path(data_dir)
        self.zookeeper = self._running.zookeeper = ZooKeeper(folder / "zookeeper")
        replicas = min(brokers, REPLICAS)
        shared: dict[str, object] = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.min.isr": 2 if replicas == REPLICAS else 1,
            "min.insync.replicas": 2 if replicas == REPLICAS else 1,
            **(settings or {}),
        }
        self._certificate = Certificate.make(folder / "certificate") if tls else None
        self.brokers: dict[int, ClusterBroker] = {}
        """By node.id. Each broker can be stopped, killed, started and restarted by itself."""
        for number in range(1, brokers + 1):
            own = {"broker.rack": racks[number - 1]} if racks else {}
            self.brokers[number] = ClusterBroker(
                number,
                self.zookeeper.address,
                {**shared, **own},
                folder / f"broker-{number}" / "data",
                self._certificate,
            )

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, running or not, for clients' bootstrap.servers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def client_settings(self) -> dict[str, str]:
        """Settings for the cluster's clients, under the names of pybroker.client and librdkafka."""
        return {"bootstrap.servers": self.bootstrap, **self._security}

    @property
    def _security(self) -> dict[str, str]:
        made = self._certificate
        return {} if made is None else {"security.protocol": "SSL", "ssl.ca.location": str(made.authority)}

    @property
    def cluster_id(self) -> str:
        """The cluster id, created at the first start."""
        return self.brokers[1].cluster_id

    @property
    def controller(self) -> int | None:
        """The id of the controller as the running brokers report it; None if there is none."""
        from pybroker.client import blocking

        running = [broker.bootstrap for broker in self.brokers.values() if broker.running]
        if not running:
            raise BrokerProcessError("no broker is running")
        with blocking.AdminClient({**self._security, "bootstrap.servers": ",".join(running)}) as admin:
            node = admin.describe_cluster().controller
            return None if node is None else node.id

    def start(self) -> Self:
        """Start ZooKeeper and all brokers; return when every broker sees all others. Raises BrokerProcessError or
        ZooKeeperError with the output of the process that did not start, DownloadError, NoJavaError.
        """
        try:
            if not self.zookeeper.running:
                self.zookeeper.start()
            waiting = [broker for broker in self.brokers.values() if not broker.running]
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(Broker.start, waiting))
            self.settle()
        except BaseException:
            self._end()
            raise
        return self

    def kill(self, broker: int) -> None:
        """Kill one broker (SIGKILL), like a crash."""
        self.brokers[broker].kill()

    def stop(self, broker: int) -> None:
        """Stop one broker cleanly: others take over its leaderships before it ends."""
        self.brokers[broker].stop()

    def start_broker(self, broker: int) -> None:
        """Start one broker again with the same port and data; return when it serves clients."""
        self.brokers[broker].start()

    def close(self) -> None:
        """Stop everything and remove the temporary directory. Kills the brokers: a clean stop has no broker to hand
        over to.
        """
        try:
            self._end()
        finally:
            self._finalizer()

    def _end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()

    def log_tail(self) -> str:
        """Return the end of the output of each broker and of ZooKeeper, for the message of a failed test."""
        said = {f"broker {number}": broker.log_tail() for number, broker in self.brokers.items()}
        said["ZooKeeper"] = self.zookeeper.log_tail()
        return "\n".join(f"--- {who}\n{words}" for who, words in said.items() if words)

    def settle(self) -> None:
        """Wait until all running brokers agree: same live brokers, same controller, same topics; every partition with a
        replica on them has a leader and all those replicas are in sync. Raises BrokerProcessError if this takes too
        long.
        """
        self._until(self._settled, "the cluster did not become stable")

    def _settled(self) -> bool:
        running = {number: broker for number, broker in self.brokers.items() if broker.running}
        settings = [{**self._security, "bootstrap.servers": broker.bootstrap} for broker in running.values()]
        seen = [_seen(each, set(running)) for each in settings]
        return all(each is not None and each == seen[0] for each in seen)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + SETTLE_SECONDS_MAX
        while not condition():
            if time.monotonic() > give_up:
                raise BrokerProcessError(f"{what} within {SETTLE_SECONDS_MAX} s:\n{self.log_tail()}")
            time.sleep(POLL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def _seen(settings: Mapping[str, str], running: set[int]) -> tuple[int, dict[str, Uuid]] | None:
    """Return the controller and the topics as one broker reports them; None unless it reports exactly the brokers in
    `running`, a controller among them, and leaders and full ISRs for all partitions that these brokers can serve.
    """
    from pybroker.client import KafkaError, blocking

    try:
        with blocking.AdminClient(settings) as admin:
            described = admin.describe_cluster()
            if {node.id for node in described.nodes} != running or described.controller is None:
                return None
            topics = admin.describe_topics(list(admin.list_topics(list_internal=True))).all_topic_names()
    except KafkaError:
        return None  # a topic that was just deleted, a broker that is not up yet
    for topic in topics.values():
        for partition in topic.partitions:
            there = {node.id for node in partition.replicas} & running
            leader = None if partition.leader is None else partition.leader.id
            if there and (leader not in there or {node.id for node in partition.isr} & running != there):
                return None
    return described.controller.id, {name: topic.topic_id for name, topic in topics.items()}

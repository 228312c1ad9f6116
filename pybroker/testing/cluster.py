"""`pybroker.testing.Cluster`: several brokers, for tests and experiments.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(1)
        cluster.settle()             # the others have taken over the leaderships of broker 1

Every broker is a child process (`pybroker.Broker`) that ends with this process. The brokers keep the cluster's metadata
in a log of their own, as Kafka does with KRaft. `Cluster(store="zookeeper")` starts ZooKeeper, a JVM, instead: the
first use downloads its jars from Maven Central and needs a JDK and Maven; later runs need only a JVM.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from pybroker.testing import child_processes
from pybroker.testing.broker import Broker, BrokerProcessError
from pybroker.testing.certificate import Certificate
from pybroker.testing.child_processes import free_port

if TYPE_CHECKING:
    from pybroker.native import Uuid
    from pybroker.testing.zookeeper.server import ZooKeeper

Store = Literal["quorum", "zookeeper"]
"""The place where a cluster keeps its metadata: a value of `metadata.store`."""

BETWEEN = "BETWEEN"
"""The inter-broker listener."""

SESSION_MS = 2_000
"""ZooKeeper session timeout in milliseconds, after which the cluster notices that a broker was killed. The brokers'
default is 6 s."""

SETTLE_SECONDS_MAX = 120.0
REPLICAS = 3
POLL_S = 0.02


def cluster_settings(broker_id: int, connect: str, port: int = 0, between_port: int = 0) -> dict[str, str]:
    """Return the settings of a broker that keeps its metadata in ZooKeeper; port 0 takes a free port at each start."""
    return {
        **listener_settings(broker_id, port, between_port),
        "metadata.store": "zookeeper",
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }


def quorum_settings(broker_id: int, voters: Mapping[int, int], port: int = 0, between_port: int = 0) -> dict[str, str]:
    """Return the settings of a broker in a metadata quorum. `voters`: voter id → the port on which brokers reach the
    voter."""
    return {
        **listener_settings(broker_id, port, between_port),
        "metadata.store": "quorum",
        "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{reached}" for voter, reached in voters.items()),
    }


def listener_settings(broker_id: int, port: int, between_port: int) -> dict[str, str]:
    """Return the part of a broker's settings that does not depend on the metadata store."""
    return {
        "node.id": str(broker_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},{BETWEEN}://127.0.0.1:{between_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{BETWEEN}:PLAINTEXT",
        "inter.broker.listener.name": BETWEEN,
    }


def tls_settings(port: int, between_port: int, certificate: Certificate) -> dict[str, str]:
    """Return the settings that change a cluster's broker to TLS. A peer with the certificate counts as a broker."""
    return {
        "listeners": f"SSL://127.0.0.1:{port},{BETWEEN}://127.0.0.1:{between_port}",
        "listener.security.protocol.map": f"SSL:SSL,{BETWEEN}:SSL",
        f"listener.name.{BETWEEN.lower()}.ssl.client.auth": "required",
        **certificate.settings(),
    }


class ClusterBroker(Broker):
    """One broker of a cluster, used like `pybroker.Broker`. Keeps its client port and data across restarts."""

    def __init__(
        self,
        broker_id: int,
        store: str | Mapping[int, int],
        settings: Mapping[str, object],
        data_dir: Path,
        certificate: Certificate | None = None,
    ) -> None:
        """store: the address of ZooKeeper; or, for a metadata quorum, voter id → the port on which brokers reach the
        voter."""
        super().__init__(settings, data_dir=data_dir)
        self.broker_id = broker_id
        self._store = store
        self._certificate = certificate

    def defaults(self) -> dict[str, str]:
        if isinstance(self._store, str):
            between = 0
            settings = cluster_settings(self.broker_id, self._store, self._port)
        else:
            between = self._store.get(self.broker_id, 0)
            settings = quorum_settings(self.broker_id, self._store, self._port, between)
        if self._certificate is not None:
            settings |= tls_settings(self._port, between, self._certificate)
        return super().defaults() | settings

    def knows_voters(self) -> bool:
        """Whether the broker has logged that all voters take part in the quorum; always true with ZooKeeper."""
        if isinstance(self._store, str):
            return True
        line = f"voters of the metadata log: {', '.join(map(str, self._store))} "
        return line in self.log_path.read_text(encoding="utf-8", errors="replace")


class _Running:
    """Resources that are released even if the owner forgets `close()`."""

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

    store: "quorum" = the brokers store the metadata themselves; "zookeeper" = ZooKeeper does. settings: of all brokers,
    under Kafka's names; they override the settings of this class. racks: of the brokers, in order. data_dir: a
    directory that is kept; None = a temporary one, removed by `close()`. tls: clients and brokers use TLS, with a new
    certificate; `client_settings` contains the clients' settings.

    Topics get three replicas and `min.insync.replicas=2`, as in a durable production cluster. A smaller cluster has as
    many replicas as brokers, and `min.insync.replicas=1`. In a metadata quorum, all brokers are voters if their number
    is odd, otherwise all but the last one.
    """

    def __init__(
        self,
        brokers: int = REPLICAS,
        settings: Mapping[str, object] | None = None,
        *,
        racks: tuple[str, ...] = (),
        data_dir: str | os.PathLike[str] | None = None,
        tls: bool = False,
        store: Store = "quorum",
    ) -> None:
        if store not in ("quorum", "zookeeper"):
            raise ValueError(f'no such store: {store!r}; pass "quorum" or "zookeeper"')
        if brokers < 1:
            raise ValueError("a cluster needs at least one broker")
        if racks and len(racks) != brokers:
            raise ValueError(f"{brokers} brokers but {len(racks)} racks; pass one rack per broker")
        self._running = _Running()
        self._finalizer = weakref.finalize(self, self._running.clean)
        if data_dir is None:
            self._running.temporary = data_dir = tempfile.mkdtemp(prefix="pybroker-cluster-")
        folder = Path(data_dir)
        self._store = self._open_store(store, folder, brokers)
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
        """The key is node.id. Each broker can be stopped, killed, started and restarted separately."""
        self._paused: set[int] = set()
        for number in range(1, brokers + 1):
            own = {"broker.rack": racks[number - 1]} if racks else {}
            self.brokers[number] = ClusterBroker(
                number,
                self._store,
                {**shared, **own},
                folder / f"broker-{number}" / "data",
                self._certificate,
            )

    def _open_store(self, store: Store, folder: Path, brokers: int) -> str | Mapping[int, int]:
        if store == "quorum":
            # With an even number of voters, the cluster would not survive more failures than with one voter less.
            return _voters(folder / "voters.json", brokers - (brokers + 1) % 2)
        from pybroker.testing.zookeeper.server import ZooKeeper

        server = self._running.zookeeper = ZooKeeper(folder / "zookeeper")
        return server.address

    @property
    def zookeeper(self) -> ZooKeeper:
        """The ZooKeeper of a cluster with `store="zookeeper"`. Raises ValueError for another cluster."""
        if self._running.zookeeper is None:
            raise ValueError('this cluster has no ZooKeeper; pass store="zookeeper" to start one')
        return self._running.zookeeper

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

        serving = [broker.bootstrap for broker in self._serving().values()]
        if not serving:
            raise BrokerProcessError("no broker is running")
        with blocking.AdminClient({**self._security, "bootstrap.servers": ",".join(serving)}) as admin:
            node = admin.describe_cluster().controller
            return None if node is None else node.id

    def start(self) -> Self:
        """Start all brokers, and ZooKeeper if the cluster has one. Return when every broker sees all others and, in a
        metadata quorum, all are voters. Raises BrokerProcessError with the output of the broker that did not start;
        with ZooKeeper also ZooKeeperError, DownloadError, NoJavaError.
        """
        zookeeper = self._running.zookeeper
        try:
            if zookeeper is not None and not zookeeper.running:
                zookeeper.start()
            waiting = [broker for broker in self.brokers.values() if not broker.running]
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(Broker.start, waiting))
            self._until(self._all_vote, "not all voters of the metadata log vote")
            self.settle()
        except BaseException:
            self._end()
            raise
        return self

    def kill(self, broker: int) -> None:
        """Kill one broker (SIGKILL), like a crash."""
        self._paused.discard(broker)
        self.brokers[broker].kill()

    def stop(self, broker: int) -> None:
        """Stop one broker cleanly. Other brokers take over its leaderships before it ends."""
        if broker in self._paused:
            self.resume(broker)
        self.brokers[broker].stop()

    def start_broker(self, broker: int) -> None:
        """Start one broker again with the same port and data. Return when it serves clients."""
        self.brokers[broker].start()

    def pause(self, broker: int) -> None:
        """Pause one broker (SIGSTOP). It answers nothing until `resume`, as if it hung."""
        child_processes.pause(self.brokers[broker].pid)
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        """Resume a paused broker."""
        os.kill(self.brokers[broker].pid, signal.SIGCONT)
        self._paused.discard(broker)

    def close(self) -> None:
        """Stop everything and remove the temporary directory. The brokers are killed, because in a clean stop the last
        broker could not move its leaderships to another broker."""
        try:
            self._end()
        finally:
            self._finalizer()

    def _end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        if self._running.zookeeper is not None:
            self._running.zookeeper.kill()

    def log_tail(self) -> str:
        """Return the end of the output of each broker and of ZooKeeper, for the message of a failed test."""
        tails = {f"broker {number}": broker.log_tail() for number, broker in self.brokers.items()}
        if self._running.zookeeper is not None:
            tails["ZooKeeper"] = self._running.zookeeper.log_tail()
        return "\n".join(f"--- {who}\n{words}" for who, words in tails.items() if words)

    def settle(self) -> None:
        """Wait until all running brokers that are not paused agree on the live brokers, the controller and the topics.
        Every partition with a replica on these brokers must have a leader, and all these replicas must be in sync.
        Raises BrokerProcessError if this takes too long."""
        self._until(self._settled, "the cluster did not become stable")

    def _serving(self) -> dict[int, ClusterBroker]:
        return {
            number: broker for number, broker in self.brokers.items() if broker.running and number not in self._paused
        }

    def _all_vote(self) -> bool:
        return all(broker.knows_voters() for broker in self.brokers.values())

    def _settled(self) -> bool:
        serving = self._serving()
        settings = [{**self._security, "bootstrap.servers": broker.bootstrap} for broker in serving.values()]
        seen = [_seen(each, set(serving)) for each in settings]
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


def _voters(file: Path, number: int) -> Mapping[int, int]:
    """Return voter id → the port on which brokers reach the voter. The ports are in a file. A cluster that is started
    on its old data must use the same ports again, because the metadata log contains them too."""
    if file.exists():
        ports = [int(port) for port in json.loads(file.read_text(encoding="utf-8"))]
    else:
        ports = [free_port() for _ in range(number)]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(ports), encoding="utf-8")
    return dict(enumerate(ports, 1))


def _seen(settings: Mapping[str, str], running: set[int]) -> tuple[int, dict[str, Uuid]] | None:
    """Return the controller and the topics as one broker reports them. Return None unless the broker reports exactly
    the brokers in `running`, one of them as controller, and leaders and full ISRs for all partitions that these brokers
    can serve."""
    from pybroker.client import KafkaError, blocking

    try:
        with blocking.AdminClient(settings) as admin:
            described = admin.describe_cluster()
            if {node.id for node in described.nodes} != running or described.controller is None:
                return None
            topics = admin.describe_topics(list(admin.list_topics(list_internal=True))).all_topic_names()
    except KafkaError:
        return None  # For example, a topic was just deleted, or a broker is still starting.
    for topic in topics.values():
        for partition in topic.partitions:
            there = {node.id for node in partition.replicas} & running
            leader = None if partition.leader is None else partition.leader.id
            if there and (leader not in there or {node.id for node in partition.isr} & running != there):
                return None
    return described.controller.id, {name: topic.topic_id for name, topic in topics.items()}

"""Several brokers on a real ZooKeeper, as child processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pybroker.client import ErrorCode, KafkaError, TopicDescription, blocking
from pybroker.testing.cluster import cluster_settings
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.links import CLIENTS, ZOOKEEPER, Links
from tests.support.processes import kill_all
from tests.support.wire import answers_metadata, free_port
from tests.support.zookeeper import ZooKeeperServer, zookeeper

__all__ = [
    "LIMIT_S",
    "SESSION_MS",
    "BrokerCluster",
    "ClusterBroker",
    "ClusterProcess",
    "described",
    "isr",
    "leaders",
    "running_cluster",
    "until",
]

LIMIT_S = 120.0
"""For what comes to pass by itself; a loaded machine takes longer."""
SESSION_MS = 6_000
"""What an operator's brokers have, too. A shorter one may end because the machine hangs: brokers are fenced then, and
leaders change, that no test has touched."""


def until(condition: Callable[[], object]) -> None:
    """Waits for what no event tells."""
    give_up = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.02)


class ClusterBroker(PybrokerProcess):
    """One broker of a cluster."""

    def __init__(self, folder: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.broker_id = broker_id
        self.between_port = free_port()
        self.advertised_port = self.port
        self.module: tuple[str, ...] = ("pybroker",)
        self.boot_id: str | None = None
        """What the broker takes for the run of its machine; None: what the system says."""
        self.settings |= {
            **cluster_settings(broker_id, connect, self.port, self.between_port),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "offsets.topic.replication.factor": "3",
            **settings,
        }

    def command(self) -> list[str]:
        python, minus_m, _, *rest = super().command()
        return [python, minus_m, *self.module, *rest]

    @property
    def log_dir(self) -> Path:
        """Where its partitions are."""
        return Path(self.settings.get("log.dirs", self.data_dir))

    def behind(self, links: Links, zookeeper_port: int) -> None:
        """Whoever connects to it, and it to ZooKeeper, goes over these links."""
        self.advertised_port = links.to(self.broker_id, self.port, CLIENTS)
        between = links.to(self.broker_id, self.between_port)
        self.settings |= {
            "zookeeper.connect": f"127.0.0.1:{links.to(ZOOKEEPER, zookeeper_port, self.broker_id)}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.advertised_port},BETWEEN://127.0.0.1:{between}",
        }

    @property
    def data_dir(self) -> Path:
        """The first log directory."""
        chosen = self.settings.get("log.dirs")
        return super().data_dir if chosen is None else Path(chosen.split(",")[0])

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return found if self.boot_id is None else {**found, "PYBROKER_BOOT_ID": self.boot_id}

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.advertised_port}"


class BrokerCluster:
    """Brokers 1 to `size`, and their ZooKeeper."""

    def __init__(self, folder: Path, size: int, server: ZooKeeperServer, settings: Mapping[str, str]) -> None:
        self.zookeeper = server
        self.brokers = {
            number: ClusterBroker(folder / str(number), number, server.address, settings)
            for number in range(1, size + 1)
        }

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self, last: int | None = None) -> None:
        """All brokers at once, `last` when the others serve, so that one of those is the controller; returns when each
        of them shows all."""
        first = [broker for number, broker in self.brokers.items() if number != last]
        for broker in first:
            broker.launch()
        for broker in first:
            broker.await_answers()
        if last is not None:
            self.brokers[last].start()
        # One that serves has heard of those that came before it.
        for broker in self.brokers.values():
            until(lambda port=broker.port: answers_metadata(port, brokers_min=len(self.brokers)))  # type: ignore[misc]

    def logs(self) -> list[tuple[str, str]]:
        """A title and the end of the log of each broker, for the report of a failed test."""
        brokers = [broker for broker in self.brokers.values() if broker.console.exists()]
        return [(f"end of the log of broker {broker.broker_id}", broker.log_tail()) for broker in brokers]

    def kill(self) -> None:
        """kill -9 of all at once: no one lives to see another one die, nor takes its partitions."""
        kill_all([broker.pid for broker in self.brokers.values() if broker.running])
        for broker in self.brokers.values():
            broker.kill()


RUNNING: list[BrokerCluster] = []
"""Those of this process: the report of a failed test shows the end of their logs."""


@contextmanager
def running_cluster(
    folder: Path,
    size: int = 3,
    settings: Mapping[str, str] | None = None,
    links: Links | None = None,
    *,
    module: tuple[str, ...] = ("pybroker",),
    prepare: Callable[[ClusterBroker], None] | None = None,
) -> Iterator[BrokerCluster]:
    """A cluster that is up; it ends with the block. `links`: over which its processes reach each other. `module`: what
    each broker runs, with its arguments: a test may have something done to the product first. `prepare` is called for
    each broker before its first start."""
    with zookeeper(folder / "zookeeper") as server:
        cluster = BrokerCluster(folder, size, server, settings or {})
        for broker in cluster.brokers.values():
            broker.module = module
            if prepare is not None:
                prepare(broker)
        if links is not None:
            for broker in cluster.brokers.values():
                broker.behind(links, server.port)
        RUNNING.append(cluster)
        try:
            cluster.start()
            yield cluster
        except BaseException:  # a test that has the cluster for itself: its report is written when it is gone
            for title, text in cluster.logs():
                print(f"--- {title}\n{text}")
            raise
        finally:
            RUNNING.remove(cluster)
            cluster.kill()


class Network(NamedTuple):
    """The cluster, and what can be cut in it."""

    cluster: BrokerCluster
    links: Links


@contextmanager
def running_network(
    folder: Path, settings: Mapping[str, str] | None = None, prepare: Callable[[ClusterBroker], None] | None = None
) -> Iterator[Network]:
    """Three brokers whose processes reach each other, ZooKeeper and clients over links that can be cut."""
    links = Links()
    try:
        with running_cluster(folder, settings=settings, links=links, prepare=prepare) as cluster:
            yield Network(cluster, links)
    finally:
        links.close()


class ClusterProcess(BrokerProcess):
    """Three brokers and their ZooKeeper in the place of one broker, for tests that know of one only: what is created
    without saying more has three replicas. `restart` is of all brokers at once, their ZooKeeper goes on."""

    name = "pybroker, three brokers on ZooKeeper"
    size = 3

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self._zookeeper = ZooKeeperServer(folder / "zookeeper")
        chosen = {"default.replication.factor": "3", "min.insync.replicas": "2", **(settings or {})}
        self.cluster = BrokerCluster(folder, self.size, self._zookeeper, chosen)
        self._up = False

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def data_dir(self) -> Path:
        """Of the first broker; each of them has a replica of everything."""
        return self.cluster.brokers[1].data_dir

    def command(self) -> list[str]:
        raise NotImplementedError("each broker has a command of its own")

    def start(self) -> None:
        if not self._up:
            self._zookeeper.start()
            self._up = True
        self.cluster.start()

    def stop(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.stop()

    def kill(self) -> int:
        self.cluster.kill()
        return 0

    def end(self) -> None:
        self.kill()
        self._zookeeper.kill()

    @property
    def running(self) -> bool:
        return all(broker.running for broker in self.cluster.brokers.values())

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(
            f"--- broker {number}\n{broker.log_tail(lines)}" for number, broker in self.cluster.brokers.items()
        )


def isr(cluster: BrokerCluster, topic: str) -> list[set[int]]:
    """Who is in sync, by partition."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [{node.id for node in one.isr} for one in described(admin, topic).partitions]


def leaders(cluster: BrokerCluster, topic: str) -> list[int | None]:
    """Who leads, by partition."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [None if one.leader is None else one.leader.id for one in described(admin, topic).partitions]


def described(admin: blocking.AdminClient, topic: str) -> TopicDescription:
    """A topic as some broker shows it, once that one has heard of it: whichever the client asks."""
    found: list[TopicDescription] = []

    def shown() -> bool:
        try:
            found.append(admin.describe_topics([topic]).all_topic_names()[topic])
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        return bool(found)

    until(shown)
    return found[0]

"""Several brokers on a real ZooKeeper or with a metadata quorum, as child processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from pybroker.client import ErrorCode, KafkaError, TopicDescription, blocking
from pybroker.testing.cluster import Store, cluster_settings, quorum_settings
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.links import CLIENTS, ZOOKEEPER, Links
from tests.support.processes import kill_all
from tests.support.stores import chosen
from tests.support.wire import answers_metadata, controller_at, free_port
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
"""Longest wait for a condition that needs no action of the test; a slow machine takes long."""
SESSION_MS = 6_000
"""Session timeout; the same as the default of brokers. With a shorter one, sessions would expire when the machine
hangs, and brokers would be fenced without any action of the test."""


QUORUM_FETCH_MS = 3_000
"""Time for which a voter may be unable to reach the leader before it starts an election. A shorter time may pass
because the machine hangs."""


def _on_quorum(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        **settings,
        "broker.session.timeout.ms": str(SESSION_MS),
        "controller.quorum.fetch.timeout.ms": str(QUORUM_FETCH_MS),
    }


def _for_quorum(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a test for a metadata quorum: the session timeout gets the name that it has without
    ZooKeeper."""
    names = {"zookeeper.session.timeout.ms": "broker.session.timeout.ms"}
    return {names.get(name, name): value for name, value in settings.items()}


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true, by polling."""
    give_up = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.02)


class ClusterBroker(PybrokerProcess):
    """One broker of a cluster."""

    def __init__(
        self, folder: Path, broker_id: int, store: str | Mapping[int, int], settings: Mapping[str, str]
    ) -> None:
        """`store`: the address of ZooKeeper, or voter id → the voter's inter-broker port."""
        super().__init__(folder)
        self.broker_id = broker_id
        own = None if isinstance(store, str) else store.get(broker_id)
        self.between_port = own or free_port()
        self.advertised_port = self.port
        self.module: tuple[str, ...] = ("pybroker",)
        self.boot_id: str | None = None
        """The boot id that the broker uses instead of the machine's; None: the machine's."""
        self.settings |= {
            **(
                {
                    **cluster_settings(broker_id, store, self.port, self.between_port),
                    "zookeeper.session.timeout.ms": str(SESSION_MS),
                }
                if isinstance(store, str)
                else _on_quorum(quorum_settings(broker_id, store, self.port, self.between_port))
            ),
            "offsets.topic.replication.factor": "3",
            **(settings if isinstance(store, str) else _for_quorum(settings)),
        }

    def command(self) -> list[str]:
        python, minus_m, _, *rest = super().command()
        return [python, minus_m, *self.module, *rest]

    @property
    def log_dir(self) -> Path:
        """The directory with the broker's partitions."""
        return Path(self.settings.get("log.dirs", self.data_dir))

    def behind(self, links: Links, zookeeper_port: int | None) -> int:
        """Route the incoming connections, and the one to ZooKeeper, over these links. Return the port for brokers."""
        self.advertised_port = links.to(self.broker_id, self.port, CLIENTS)
        between = links.to(self.broker_id, self.between_port)
        self.settings["advertised.listeners"] = (
            f"PLAINTEXT://127.0.0.1:{self.advertised_port},BETWEEN://127.0.0.1:{between}"
        )
        if zookeeper_port is not None:
            self.settings["zookeeper.connect"] = f"127.0.0.1:{links.to(ZOOKEEPER, zookeeper_port, self.broker_id)}"
        return between

    def knows_voters(self, voters: Mapping[int, int]) -> bool:
        """Return whether the broker has logged that all voters take part."""
        return f"voters of the metadata log: {', '.join(map(str, voters))} " in self.console.read_text(errors="replace")

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
        """`host:port` for clients."""
        return f"127.0.0.1:{self.advertised_port}"


class BrokerCluster:
    """Brokers 1 to `size`, and their ZooKeeper if they have one."""

    def __init__(
        self,
        folder: Path,
        size: int,
        server: ZooKeeperServer | None,
        settings: Mapping[str, str],
        voters: int | None = None,
    ) -> None:
        """`server`: the ZooKeeper server; None: the brokers store the metadata themselves, and the first `voters` of
        them vote."""
        self._server = server
        # All brokers vote, or all but the last one: with an odd number of voters, one half always has a majority.
        voters = voters or size - (size + 1) % 2
        self._voters = {} if server else {number: free_port() for number in range(1, voters + 1)}
        self.brokers = {
            number: ClusterBroker(folder / str(number), number, server.address if server else self._voters, settings)
            for number in range(1, size + 1)
        }

    @property
    def on_quorum(self) -> bool:
        """Whether there is no ZooKeeper."""
        return self._server is None

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The ZooKeeper of a cluster that has one."""
        assert self._server is not None, "this cluster has a metadata quorum"
        return self._server

    def voters(self) -> list[ClusterBroker]:
        """The voters of the metadata quorum."""
        return [self.brokers[number] for number in self._voters]

    def behind(self, links: Links) -> None:
        """Route all connections, including those to ZooKeeper, over these links."""
        port = None if self._server is None else self._server.port
        between = {number: broker.behind(links, port) for number, broker in self.brokers.items()}
        if self._server is None:
            voters = ",".join(f"{number}@127.0.0.1:{between[number]}" for number in self._voters)
            for broker in self.brokers.values():
                broker.settings["controller.quorum.voters"] = voters

    def shown_controller(self) -> int | None:
        """Return the running broker that the running brokers show as controller; None if they show none."""
        for broker in self.brokers.values():
            if broker.running and (found := controller_at(broker.port)) in self.brokers and self.brokers[found].running:
                return found
        return None

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self, last: int | None = None) -> None:
        """Start all brokers at once, but `last` only when the others serve clients: one of the others is then the
        controller. Return when each broker lists all of them."""
        first = [broker for number, broker in self.brokers.items() if number != last]
        for broker in first:
            broker.launch()
        for broker in first:
            broker.await_answers()
        if last is not None:
            self.brokers[last].start()
        # A broker that serves clients knows the brokers that started before it.
        for broker in self.brokers.values():
            until(lambda port=broker.port: answers_metadata(port, brokers_min=len(self.brokers)))  # type: ignore[misc]
        if self.on_quorum:
            # Brokers become voters one at a time; from then on a majority is sufficient.
            until(lambda: all(broker.knows_voters(self._voters) for broker in self.brokers.values()))

    def logs(self) -> list[tuple[str, str]]:
        """Return (title, end of the log) of each broker, for the report of a failed test."""
        brokers = [broker for broker in self.brokers.values() if broker.console.exists()]
        return [(f"end of the log of broker {broker.broker_id}", broker.log_tail()) for broker in brokers]

    def kill(self) -> None:
        """Kill all brokers at once: none can notice the death of another, or take over its partitions."""
        kill_all([broker.pid for broker in self.brokers.values() if broker.running])
        for broker in self.brokers.values():
            broker.kill()


RUNNING: list[BrokerCluster] = []
"""The clusters of this process. The report of a failed test shows the end of their logs."""


@contextmanager
def new_cluster(
    folder: Path,
    size: int,
    settings: Mapping[str, str] | None = None,
    store: Store | None = None,
    voters: int | None = None,
) -> Iterator[BrokerCluster]:
    """Yield a cluster that is not started. Its ZooKeeper is running. Both end with the block. `store`: None: the store
    that `clusters_on` has set."""
    with ExitStack() as stack:
        server = None if (store or chosen()) == "quorum" else stack.enter_context(zookeeper(folder / "zookeeper"))
        cluster = BrokerCluster(folder, size, server, settings or {}, voters)
        RUNNING.append(cluster)
        try:
            yield cluster
        except BaseException:  # The cluster is gone when the report of the failed test is written.
            for title, text in cluster.logs():
                print(f"--- {title}\n{text}")
            raise
        finally:
            RUNNING.remove(cluster)
            cluster.kill()


@contextmanager
def running_cluster(
    folder: Path,
    size: int = 3,
    settings: Mapping[str, str] | None = None,
    links: Links | None = None,
    *,
    module: tuple[str, ...] = ("pybroker",),
    prepare: Callable[[ClusterBroker], None] | None = None,
    store: Store | None = None,
    voters: int | None = None,
) -> Iterator[BrokerCluster]:
    """Yield a running cluster, which ends with the block. `links`: the links over which its processes reach each other.
    `module`: the module that each broker runs, with its arguments; it can change the product first. `prepare` is called
    for each broker before its first start."""
    with new_cluster(folder, size, settings, store, voters) as cluster:
        for broker in cluster.brokers.values():
            broker.module = module
            if prepare is not None:
                prepare(broker)
        if links is not None:
            cluster.behind(links)
        cluster.start()
        yield cluster


class Network(NamedTuple):
    """A cluster, and the links between its processes, which can be cut."""

    cluster: BrokerCluster
    links: Links


@contextmanager
def running_network(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[ClusterBroker], None] | None = None,
    store: Store | None = None,
) -> Iterator[Network]:
    """Run three brokers whose processes reach each other, ZooKeeper and clients over links that can be cut."""
    links = Links()
    try:
        with running_cluster(folder, settings=settings, links=links, prepare=prepare, store=store) as cluster:
            yield Network(cluster, links)
    finally:
        links.close()


class ClusterProcess(BrokerProcess):
    """Three brokers and their ZooKeeper, for tests that are written for one broker. A topic has three replicas unless
    the test says otherwise. `restart` restarts all brokers at once, but not ZooKeeper."""

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
        """The log directory of the first broker; each broker has a replica of every partition."""
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
    """Return the ISR of each partition."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [{node.id for node in one.isr} for one in described(admin, topic).partitions]


def leaders(cluster: BrokerCluster, topic: str) -> list[int | None]:
    """Return the leader of each partition."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [None if one.leader is None else one.leader.id for one in described(admin, topic).partitions]


def described(admin: blocking.AdminClient, topic: str) -> TopicDescription:
    """Return a topic as any broker describes it, once that broker knows the topic."""
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

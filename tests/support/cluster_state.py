"""The state of a cluster in its metadata store, for tests that count elections or wait until all replicas are in
sync."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from tests.support.cluster import LIMIT_S, BrokerCluster
from tests.support.metadata_log_state import MetadataLogState
from tests.support.partition_states import PartitionState, StateUnknownError
from tests.support.zookeeper import CLIENT_SESSION_S, CONNECT_S

TOPICS = "/brokers/topics"


class ZooKeeperState:
    """The state in ZooKeeper. Each call raises StateUnknownError if ZooKeeper does not respond within the reader's
    timeout."""

    def __init__(self, connect: str, digest: str | None = None, patience_s: float = LIMIT_S) -> None:
        """connect: host and port. digest: `user:password`, if only that user may read the znodes."""
        self._connect = connect
        self._auth = None if digest is None else [("digest", digest)]
        self._patience_s = patience_s
        self._client = self._connected()

    def _connected(self) -> Any:
        # A reader with a short timeout must notice soon that ZooKeeper does not respond.
        session_s = CLIENT_SESSION_S if self._patience_s else 10.0
        client = KazooClient(self._connect, timeout=session_s, auth_data=self._auth)
        client.start(CONNECT_S)
        return client

    def begin_anew(self) -> None:
        """Open a new session: ZooKeeper was restored, and serves no client that has seen a later state."""
        self.__exit__()
        self._client = self._connected()

    def controller(self) -> int | None:
        """The controller's broker id; None while there is none."""
        data = self._get("/controller")
        return None if data is None else int(json.loads(data)["brokerid"])

    def brokers(self) -> set[int]:
        """Return the registered brokers."""
        return {int(name) for name in self._children("/brokers/ids")}

    def life(self, broker: int) -> int:
        """Return the epoch of a broker; -1 while it is not registered."""
        stat = self._read(self._client.exists, f"/brokers/ids/{broker}")
        return -1 if stat is None else int(stat.czxid)

    def controller_epoch(self) -> int:
        """Return the epoch of the controller that was elected last."""
        return int(self._get("/controller_epoch") or b"0")

    def partitions(self) -> dict[tuple[str, int], PartitionState]:
        """Return all partitions of all topics."""
        found: dict[tuple[str, int], PartitionState] = {}
        for topic in self._children(TOPICS):
            text = self._get(f"{TOPICS}/{topic}")
            if text is None:
                continue
            node = json.loads(text)
            moving = {
                **node.get("departed_replicas", {}),
                **node.get("adding_replicas", {}),
                **node.get("removing_replicas", {}),
            }
            for name, replicas in node["partitions"].items():
                path = f"{TOPICS}/{topic}/partitions/{name}/state"
                state, version = self._node(path)
                if state is None:
                    continue
                told = json.loads(state)
                found[topic, int(name)] = PartitionState(
                    frozenset(replicas),
                    told["leader"],
                    told["leader_epoch"],
                    frozenset(told["isr"]),
                    version,
                    base64.urlsafe_b64decode(node["id"] + "==").hex(),
                    bool(moving.get(name)),
                )
        return found

    def departed(self, topic: str) -> dict[int, list[int]]:
        """Return partition → brokers from which it was moved away and that have not staged their replica."""
        node = json.loads(self._get(f"{TOPICS}/{topic}") or b"{}")
        found = node.get("departed_replicas", {})
        return {int(partition): sorted(map(int, epochs)) for partition, epochs in found.items()}

    def known_of(self, broker: int) -> list[str]:
        """Return what the metadata still has of a broker without a registration."""
        paths = [f"/admin/running/{broker}", f"/admin/staged/{broker}"]
        epochs = (self._get("/brokers/epochs") or b"").decode()
        return [path for path in paths if self._get(path) is not None] + ["epoch"] * (f'"{broker}"' in epochs)

    def _node(self, path: str) -> tuple[bytes | None, int]:
        try:
            data, stat = self._read(self._client.get, path)
        except NoNodeError:
            return None, -1
        return data, stat.version

    def _get(self, path: str) -> bytes | None:
        return self._node(path)[0]

    def _children(self, path: str) -> list[str]:
        found: list[str] = self._read(self._client.get_children, path)
        return found

    def _read(self, how: Callable[[str], Any], path: str) -> Any:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                return how(path)
            except NoNodeError:
                raise
            except (KazooException, KazooTimeoutError) as problem:
                if time.monotonic() >= give_up:
                    raise StateUnknownError(f"{path}: {problem!r}") from problem
                time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


ClusterState = ZooKeeperState | MetadataLogState


def state_of(cluster: BrokerCluster, digest: str | None = None, patience_s: float = LIMIT_S) -> ClusterState:
    """Yield the state in ZooKeeper, or in the brokers' metadata logs."""
    if cluster.on_quorum:
        return MetadataLogState(cluster)
    return ZooKeeperState(cluster.zookeeper.address, digest, patience_s)


def not_there(cluster: BrokerCluster, state: ClusterState) -> list[str]:
    """Return the replicas that their brokers have not created yet: in a new topic they count as in sync before they
    exist."""
    return [
        f"{topic}-{index} on broker {broker}"
        for (topic, index), one in state.partitions().items()
        for broker in one.replicas
        if not (cluster.brokers[broker].log_dir / f"{topic}-{index}" / "partition.metadata").exists()
    ]

"""Opens this broker's node of the metadata quorum: finds the cluster, formats a new node, and connects it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.cluster.quorum_events import QuorumAddress
from pybroker.broker.interbroker.connector import Connector
from pybroker.broker.interbroker.quorum_transport import QuorumTransport, cluster_id_of
from pybroker.broker.lifecycle.startup.ownership import directory_id_of, owner_of
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.records.frames import encode_record
from pybroker.broker.metadata.store_history import FILE_NAME as SEEN_ON_ZOOKEEPER
from pybroker.broker.metadata.znodes import Endpoint
from pybroker.broker.quorum.fetch_reports import FetchReports
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.native_log import NativeMetadataLog, NodeParts
from pybroker.broker.quorum.seen_metadata import SeenMetadata
from pybroker.broker.quorum.snapshot_cutter import SnapshotLimits
from pybroker.config import BrokerConfig
from pybroker.config.listener_addresses import VoterAddress
from pybroker.errors import FatalError, StartError
from pybroker.files import write_atomically
from pybroker.native import NativeError, NativeMetadata, Uuid
from pybroker.native_quorum import MetadataQuorum, QuorumEndpoint, QuorumReplica, QuorumStatus
from pybroker.protocol import messages as m

log = logging.getLogger(__name__)

WARNING = "metadata.store=quorum is not for production yet"
TIMEOUTS = (
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.election.backoff.max.ms",
)
LOG_LIMITS = (
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
)
FOUNDING = "quorum-founding"
"""File in the directory of the metadata log. It marks this broker as the founder of the cluster whose id it
contains."""
ASK_S_MIN, ASK_S_MAX = 0.02, 0.5
"""First and longest pause, in seconds, between two rounds in which this broker asks other brokers for the cluster's id.
Each pause is twice the previous pause."""


BOOTSTRAP_FIRST = -2
"""The node id that the metadata log uses for the first of `controller.quorum.bootstrap.servers`. The following servers
have the next lower ids."""


class VoterDirectory:
    """The inter-broker addresses of the quorum's nodes, from three sources: the voters in the metadata log, the
    configured voters, and the addresses that nodes report."""

    def __init__(self, config: BrokerConfig, status: Callable[[], QuorumStatus] | None = None) -> None:
        """`status` returns this node's view of the quorum."""
        assert config.between_brokers is not None
        self._listener = config.between_brokers
        self._protocol = next(listener.protocol for listener in config.listeners if listener.name == self._listener)
        self._voters = {voter.node_id: voter for voter in config.voters}
        self._status = status

    def address_of(self, node_id: int) -> BrokerImage | None:
        """Return a voter as a broker; None if the node is not a voter."""
        voters = () if self._status is None else self._status().voters
        known = next((voter.endpoints[0] for voter in voters if voter.node_id == node_id and voter.endpoints), None)
        return self.broker(node_id, "", 0) if known is None else self.broker(node_id, known.host, known.port)

    def broker(self, node_id: int, host: str, port: int) -> BrokerImage | None:
        """Return a node as a broker. `host` and `port`: the address that the node itself has reported."""
        voter = self._voters.get(node_id)
        if not host and voter is not None:
            host, port = voter.host, voter.port
        if not host:
            return None
        return BrokerImage(node_id, -1, (Endpoint(self._listener, host, port, self._protocol),), None)


def stored_cluster_id(log_dirs: Sequence[str]) -> str | None:
    """Return the cluster's id in a log directory; None before the first start."""
    return next(filter(None, (owner_of(Path(log_dir)).get("cluster.id") for log_dir in log_dirs)), None)


async def find_cluster(config: BrokerConfig, login: Mapping[str, str]) -> tuple[str, bool]:
    """Return the id of the cluster, and whether this broker founds it. The id comes from the log directories, or else
    from another broker. A broker without configured addresses founds a new cluster. If no broker responds, the voter
    with the lowest id in `controller.quorum.voters` also founds a cluster; all other brokers wait for the cluster's id.
    """
    _require_no_other_log(config)
    mark, stored = _founding_mark(config), stored_cluster_id(config.log_dirs)
    if mark.exists():
        return mark.read_text(), True
    others = _others(config)
    if stored is not None:
        if not others and not (Path(config.metadata_log_dir) / METADATA_LOG_DIRECTORY).is_dir():
            raise StartError(
                f"{config.metadata_log_dir} belongs to cluster {stored} and has no metadata log. To join the other "
                "brokers, start with --join HOST:PORT. If the metadata is in ZooKeeper, move it with `pybroker "
                "metadata migrate --from zookeeper --to quorum`. If the log was lost, use `pybroker cluster quorum "
                "restore`"
            )
        return stored, False
    voters, here = VoterDirectory(config), config.broker_id
    open_connection = _connector(config, login)
    founder = not others or min((voter.node_id for voter in config.voters), default=None) == here
    pause_s = ASK_S_MIN
    while True:
        found = await _ask(voters, others, open_connection, here)
        if found is not None:
            return found, False
        if founder:
            cluster_id = str(Uuid.random())
            # Without the mark, a crash before the log is formatted would leave a broker that waits for a cluster that
            # it has to found itself.
            mark.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(mark, cluster_id.encode())
            return cluster_id, True
        if pause_s == ASK_S_MIN:
            addresses = ", ".join(f"{other.host}:{other.port}" for other in others)
            log.info("waiting for another broker, to learn the id of the cluster addresses=%s", addresses)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, ASK_S_MAX)


def bootstrap_servers(config: BrokerConfig) -> list[VoterAddress]:
    """Return `controller.quorum.bootstrap.servers` without this broker's own addresses, under negative ids."""
    own = {(listener.host, listener.port) for listener in config.listeners}
    own.update((address.host, address.port) for address in own_addresses(config))
    others = [address for address in config.quorum_bootstrap if address not in own]
    return [VoterAddress(BOOTSTRAP_FIRST - place, *address) for place, address in enumerate(others)]


def _others(config: BrokerConfig) -> list[VoterAddress]:
    """Return the configured addresses of other brokers."""
    return [
        voter for voter in (*config.voters, *bootstrap_servers(config)) if voter.node_id != config.broker_id
    ]


def own_addresses(config: BrokerConfig) -> tuple[QuorumAddress, ...]:
    """Return the inter-broker addresses of this broker: from `controller.quorum.voters`, or else its advertised
    listeners."""
    assert config.between_brokers is not None
    voter = next((voter for voter in config.voters if voter.node_id == config.broker_id), None)
    if voter is not None:
        return (QuorumAddress(config.between_brokers, voter.host, voter.port),)
    bound = ((listener.name, listener.host, listener.port) for listener in config.listeners)
    return tuple(
        QuorumAddress(listener.name, listener.host, listener.port)
        for listener in config.advertised_listeners(bound)
        if listener.name == config.between_brokers and listener.port
    )


def _connector(config: BrokerConfig, login: Mapping[str, str]) -> Connector:
    assert config.between_brokers is not None
    return Connector(config.broker_id, config.between_brokers, login)


def _founding_mark(config: BrokerConfig) -> Path:
    return Path(config.metadata_log_dir) / FOUNDING


async def _ask(
    voters: VoterDirectory, others: Sequence[VoterAddress], open_connection: Connector, broker_id: int
) -> str | None:
    found = (voters.broker(voter.node_id, voter.host, voter.port) for voter in others)
    brokers = [broker for broker in found if broker is not None]
    answers = await asyncio.gather(*(cluster_id_of(open_connection, broker, broker_id) for broker in brokers))
    return next(filter(None, answers), None)


class OpenQuorum(NamedTuple):
    """The node of this broker, its transport, and the components that follow the log."""

    log: NativeMetadataLog
    transport: QuorumTransport
    loader: MetadataLoader
    voters: VoterDirectory
    seen: SeenMetadata
    reports: FetchReports
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]


async def open_quorum(
    config: BrokerConfig,
    cluster_id: str,
    login: Mapping[str, str],
    on_fatal: Callable[[FatalError], None],
    *,
    metadata: NativeMetadata,
    founds: bool,
) -> OpenQuorum:
    """Open the node; the log directories have their ids by now. `metadata`: makes the data plane pass on fetches of the
    metadata topic. `founds`: format the node as the only voter of a new cluster. Raises StartError."""
    log.warning("%s", WARNING)
    directory, here = Path(config.metadata_log_dir) / METADATA_LOG_DIRECTORY, config.broker_id
    directory_id = Uuid.parse(directory_id_of(config.metadata_log_dir))
    others = _others(config)
    endpoints = voter_endpoint(config)
    settings = {name: config.get_int(name) for name in (*TIMEOUTS, *LOG_LIMITS)}
    limits = SnapshotLimits(
        config.get_int("metadata.log.max.record.bytes.between.snapshots"),
        config.get_int("metadata.log.max.snapshot.interval.ms"),
    )

    loader = MetadataLoader(on_fatal)
    accepted_ms = -1
    if (first := Path(config.log_dirs[0])).joinpath(SEEN_ON_ZOOKEEPER).exists():
        # Imported here, because the import loads the modules for ZooKeeper.
        from pybroker.broker.replicas.store_guard import accepted_before

        accepted_ms = accepted_before(first)
    seen = SeenMetadata(directory.parent, loader, on_fatal, accepted_ms)

    def start() -> MetadataQuorum:
        if not MetadataQuorum.is_formatted(directory):
            first = [QuorumReplica(here, directory_id)] if founds else []
            MetadataQuorum.format(directory, first, endpoints if founds else [])
        _founding_mark(config).unlink(missing_ok=True)
        node = MetadataQuorum(
            directory=directory,
            node_id=here,
            directory_id=directory_id,
            cluster_id=cluster_id,
            bootstrap=[voter.node_id for voter in others],
            endpoints=endpoints,
            settings=settings,
            seen_offset=seen.offset,
        )
        node.learn([QuorumEndpoint(voter.node_id, "", voter.host, voter.port) for voter in others])
        return node

    try:
        native = await asyncio.get_running_loop().run_in_executor(None, start)
    except NativeError as problem:
        raise StartError(f"the metadata log in {directory} cannot be opened: {problem}") from None
    metadata.serve_quorum(native)
    known = VoterDirectory(config, native.status)
    reports = FetchReports()
    transport = QuorumTransport(here, _connector(config, login), known.broker, reports)
    parts = NodeParts(
        native,
        here,
        transport.send,
        encode_record(m.NoOpRecord()),
        lambda: loader.image,
        limits,
    )
    node = NativeMetadataLog(parts, on_fatal)
    addresses = own_addresses(config)
    return OpenQuorum(node, transport, loader, known, seen, reports, directory_id, addresses)


def _require_no_other_log(config: BrokerConfig) -> None:
    """Raise StartError if another log directory has the metadata log. Without that log, this broker would start as a
    new replica, and might found another cluster."""
    for log_dir in config.log_dirs:
        other = Path(log_dir) / METADATA_LOG_DIRECTORY
        if log_dir != config.metadata_log_dir and other.exists():
            raise StartError(
                f"metadata.log.dir is {config.metadata_log_dir}, but the metadata log is in {other}. Set "
                f"metadata.log.dir={log_dir}"
            )


def voter_endpoint(config: BrokerConfig) -> list[QuorumEndpoint]:
    """Return this broker's addresses as a voter."""
    return [
        QuorumEndpoint(config.broker_id, address.listener, address.host, address.port)
        for address in own_addresses(config)
    ]

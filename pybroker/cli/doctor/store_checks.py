"""Checks whether ZooKeeper responds, and checks its data about this broker. Writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from pybroker.broker.metadata.metadata_store import MetadataStore, StoreError, get_or_none
from pybroker.broker.metadata.znodes import (
    BROKER_IDS,
    CLUSTER_ID,
    BrokerNode,
    DamagedNodeError,
    decode_broker,
    decode_cluster_id,
)
from pybroker.broker.offline.offline_directories import read_properties_of
from pybroker.cli.doctor.disk_checks import in_use
from pybroker.cli.doctor.finding import Finding, bad, ok, warn
from pybroker.config import BrokerConfig, ConfigSource
from pybroker.errors import FatalError, StartError

ZOOKEEPER = "zookeeper"
CLOCK = "clock"
ANSWER_MS_MAX = 10_000
SKEW_MS_MAX = 2_000


async def zookeeper(config: BrokerConfig) -> AsyncIterator[Finding]:
    """Check the ensemble of the settings."""
    from pybroker.broker.lifecycle.startup.store_opening import open_store

    connect = config.get_str("zookeeper.connect")
    hosts, slash, path = connect.partition("/")
    chroot = f"{slash}{path}".rstrip("/")

    def on_fatal(problem: FatalError) -> None:
        """Do nothing: the next call to the store raises the error."""

    # Omit the chroot. Opening a store would create the chroot, and the check must not change anything.
    static = {**config.layer(ConfigSource.STATIC_BROKER_CONFIG), "zookeeper.connect": hosts}
    static["zookeeper.connection.timeout.ms"] = str(ANSWER_MS_MAX)
    try:
        store = await open_store(BrokerConfig(static, config.listener_settings), on_fatal)
    except StartError as problem:
        yield bad(
            ZOOKEEPER,
            str(problem).replace(f"={hosts}:", f"={connect}:"),
            "start ZooKeeper, or correct zookeeper.connect",
        )
        return
    try:
        for each in await _asked(store, chroot, config):
            yield each
    except (StoreError, DamagedNodeError) as problem:
        yield bad(ZOOKEEPER, f"{connect}: {problem}", "check the log and the ACLs of the ZooKeeper ensemble")
    finally:
        await store.close()


async def _asked(store: MetadataStore, chroot: str, config: BrokerConfig) -> list[Finding]:
    connect = config.get_str("zookeeper.connect")
    node = await get_or_none(store, f"{chroot}{CLUSTER_ID}")
    if node is None:
        return list(_no_cluster(config, connect))
    cluster_id = decode_cluster_id(node.data)
    found = list(_ids(config, cluster_id))
    registered: dict[int, tuple[BrokerNode, int]] = {}
    for name in await store.children(f"{chroot}{BROKER_IDS}"):
        path = f"{chroot}{BROKER_IDS}/{name}"
        one = await get_or_none(store, path)
        if one is not None and name.isdigit():
            registered[int(name)] = (decode_broker(path, one.data), one.created_ms)
    brokers = ", ".join(map(str, sorted(registered))) or "none"
    found.append(ok(ZOOKEEPER, f"{connect} responds: cluster {cluster_id}, brokers: {brokers}"))
    mine = registered.get(config.broker_id)
    if mine is not None and not any(in_use(Path(each)) for each in config.log_dirs):
        where = ", ".join(f"{each.host}:{each.port}" for each in mine[0].endpoints)
        says = f"broker {config.broker_id} is already registered at {where} and does not use these directories"
        found.append(bad("ids", says, "give this broker a unique node.id"))
    for broker, (about, created_ms) in sorted(registered.items()):
        skew_ms = about.timestamp_ms - created_ms
        if about.timestamp_ms > 0 and created_ms > 0 and abs(skew_ms) > SKEW_MS_MAX:
            way = "ahead of" if skew_ms > 0 else "behind"
            says = f"broker {broker} was {abs(skew_ms):,} ms {way} ZooKeeper's clock when it registered"
            found.append(warn(CLOCK, says, "run chrony, ntpd or systemd-timesyncd on all machines"))
    return found


def _no_cluster(config: BrokerConfig, connect: str) -> Iterator[Finding]:
    owners = [owner for each in config.log_dirs if (owner := read_properties_of(Path(each)))]
    if owners:
        says = f"{connect} responds but has no cluster, and the data belongs to cluster {owners[0].get('cluster.id')}"
        yield bad(ZOOKEEPER, says, "correct the path in zookeeper.connect, or restore ZooKeeper's data")
    else:
        yield ok(ZOOKEEPER, f"{connect} responds: no cluster yet; the first broker creates it")


def _ids(config: BrokerConfig, cluster_id: str) -> Iterator[Finding]:
    for each in config.log_dirs:
        owner = read_properties_of(Path(each)) or {}
        if owner.get("cluster.id", cluster_id) != cluster_id:
            says = f"{each} belongs to cluster {owner['cluster.id']} instead of {cluster_id} (ZooKeeper)"
            yield bad("ids", says, "correct log.dirs or zookeeper.connect")

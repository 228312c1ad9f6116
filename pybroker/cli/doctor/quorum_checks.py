"""Checks the voters of a metadata quorum: the settings, and the responses of the other voters. Writes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pybroker.broker.offline.offline_directories import read_properties_of
from pybroker.cli.doctor.finding import Finding, FindingState, bad, ok, warn, worst
from pybroker.config import BrokerConfig
from pybroker.config.listener_addresses import VoterAddress
from pybroker.errors import StartError

QUORUM = "quorum"
VOTERS = "controller.quorum.voters"


async def quorum(config: BrokerConfig) -> list[Finding]:
    """Check settings and voters."""
    found = list(settings(config))
    if worst(found) is not FindingState.BAD:
        found += await answers(config)
    return found


def settings(config: BrokerConfig) -> Iterator[Finding]:
    """Check `controller.quorum.voters`."""
    voters = config.voters
    if not voters:
        return
    addresses = Counter((voter.host, voter.port) for voter in voters)
    problems = [
        bad(QUORUM, f"{VOTERS}: {count} voters have the address {host}:{port}", "give each voter its own address")
        for (host, port), count in addresses.items()
        if count > 1
    ]
    problems += _own(config, {voter.node_id: voter for voter in voters})
    if len(voters) % 2 == 0:
        majority, odd = len(voters) // 2 + 1, len(voters) - 1
        says = f"{len(voters)} voters need {majority} for a majority: they survive no more failures than {odd}"
        problems.append(warn(QUORUM, says, f"use {odd} or {len(voters) + 1} voters"))
    yield from problems
    if not problems:
        yield ok(QUORUM, f"{len(voters)} voters: {', '.join(str(voter.node_id) for voter in voters)}")


def _own(config: BrokerConfig, voters: dict[int, VoterAddress]) -> Iterator[Finding]:
    here, between = config.broker_id, config.between_brokers
    own = voters.get(here)
    if own is None:
        says = f"{VOTERS} does not have node {here}: this broker follows the metadata log and does not vote"
        yield warn(QUORUM, says, f"add {here}@host:port, unless that is meant")
        return
    bound = ((listener.name, listener.host, listener.port) for listener in config.listeners)
    ports = {listener.name: listener.port for listener in config.advertised_listeners(bound)}
    if own.port in (0, ports.get(between or "")):
        return
    says = f"{VOTERS} has node {here} at port {own.port}: no listener of this broker"
    yield bad(QUORUM, says, f"name the address of the listener {between} (inter.broker.listener.name)")


async def answers(config: BrokerConfig) -> list[Finding]:
    """Request the cluster id from the other voters."""
    from pybroker.broker.interbroker.connector import Connector, client_settings
    from pybroker.broker.interbroker.quorum_transport import cluster_id_of
    from pybroker.broker.lifecycle.startup.quorum_opening import VoterDirectory

    assert config.between_brokers is not None
    others = [voter for voter in config.voters if voter.node_id != config.broker_id]
    try:
        login = await client_settings(config)
    except StartError as problem:
        return [bad(QUORUM, str(problem), "correct the login of brokers")]
    connect = Connector(config.broker_id, config.between_brokers, login)
    directory = VoterDirectory(config)
    brokers = [broker for voter in others if (broker := directory.address_of(voter.node_id)) is not None]
    ids = await asyncio.gather(*(cluster_id_of(connect, broker, config.broker_id) for broker in brokers))
    found: list[Finding] = []
    for voter, cluster_id in zip(others, ids, strict=True):
        where = f"voter {voter.node_id} at {voter.host}:{voter.port}"
        if cluster_id is None:
            advice = "start it, or correct its address; before the first start of a cluster this is normal"
            found.append(warn(QUORUM, f"{where} does not answer", advice))
        else:
            found.append(ok(QUORUM, f"{where} answers: cluster {cluster_id}"))
    found += _other_cluster(config, {cluster_id for cluster_id in ids if cluster_id is not None})
    return found


def _other_cluster(config: BrokerConfig, clusters: set[str]) -> Iterator[Finding]:
    if len(clusters) > 1:
        says = f"the voters belong to different clusters: {', '.join(sorted(clusters))}"
        yield bad(QUORUM, says, f"correct {VOTERS}, or the directories of the voters")
        return
    for cluster_id in clusters:
        for log_dir in config.log_dirs:
            own = (read_properties_of(Path(log_dir)) or {}).get("cluster.id", cluster_id)
            if own != cluster_id:
                says = f"{log_dir} belongs to cluster {own}, the other voters to {cluster_id}"
                yield bad(QUORUM, says, f"correct log.dirs or {VOTERS}")

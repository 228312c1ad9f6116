"""`pybroker cluster`: commands on the cluster as a whole."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup

VERBS: dict[str, str] = {
    "accept-restored-store": "pybroker.cli.cluster.maintenance:accept_restored_store",
    "adopt-id": "pybroker.cli.cluster.maintenance:adopt_id",
    "balance": "pybroker.cli.cluster.reassignment_plans:balance",
    "describe": "pybroker.cli.cluster.describe:describe",
    "drain": "pybroker.cli.cluster.reassignment_plans:drain",
    "health": "pybroker.cli.cluster.health:health",
    "id": "pybroker.cli.cluster.basics:cluster_id",
    "log-dirs": "pybroker.cli.cluster.basics:log_dirs",
    "quorum": "pybroker.cli.cluster:quorum",
    "unregister": "pybroker.cli.cluster.maintenance:unregister",
}
"""Verb → `module:attribute` of its click command."""

QUORUM_VERBS: dict[str, str] = {
    "accept-restored": "pybroker.cli.cluster.quorum_copies:accept_restored",
    "add": "pybroker.cli.cluster.quorum_voters:add",
    "backup": "pybroker.cli.cluster.quorum_copies:backup",
    "recover": "pybroker.cli.cluster.quorum_copies:recover",
    "remove": "pybroker.cli.cluster.quorum_voters:remove",
    "restore": "pybroker.cli.cluster.quorum_copies:restore",
    "status": "pybroker.cli.cluster.quorum_voters:status",
    "transfer": "pybroker.cli.cluster.quorum_voters:transfer",
}
"""Verb of `cluster quorum` → `module:attribute` of its click command."""


@click.group(cls=VerbGroup, lazy=VERBS)
def cluster() -> None:
    """Inspect and manage the cluster."""


@click.group(cls=VerbGroup, lazy=QUORUM_VERBS)
def quorum() -> None:
    """Manage the metadata log of a cluster without ZooKeeper."""

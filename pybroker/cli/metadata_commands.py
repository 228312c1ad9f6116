"""`pybroker metadata`: moves the metadata of stopped brokers to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import VerbGroup
from pybroker.cli.local_broker import local_broker, settings_options
from pybroker.cli.output import say

if TYPE_CHECKING:
    from pybroker.config import BrokerConfig


@click.group(cls=VerbGroup)
def metadata() -> None:
    """Move the metadata of stopped brokers to another store."""


@metadata.command()
@click.option(
    "--from",
    "origin",
    type=click.Choice(["embedded", "zookeeper"]),
    default="embedded",
    show_default=True,
    help="Store that has the metadata: that of a single broker, or ZooKeeper.",
)
@click.option(
    "--to", "to", type=click.Choice(["zookeeper", "quorum"]), required=True, help="Store to move the metadata to."
)
@settings_options("Settings file of the broker.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def migrate(origin: str, to: str, file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Move all metadata with its ids to another store; records stay in place.

    A single broker becomes the first one of a cluster. Pass the settings with which it will start: metadata.store,
    a listener for brokers, and for ZooKeeper zookeeper.connect.

    With --from zookeeper --to quorum a whole cluster moves. Stop all of its brokers, and pass the settings with which
    one of them ran on ZooKeeper. That broker gets the metadata log, and the others join it.

    If the command is interrupted, run it again. At the end the old store is sealed: brokers refuse it.
    """
    if origin == to:
        raise click.UsageError("--from and --to name the same store")
    with local_broker(file, assignments) as config:
        if to == "quorum":
            _to_quorum(config, origin, yes)
        else:
            _to_zookeeper(config, yes)


def _to_zookeeper(config: BrokerConfig, yes: bool) -> None:
    import asyncio

    from pybroker.broker.offline.zookeeper_migration import migrate as move

    where = config["zookeeper.connect"]
    if not yes and where:
        click.confirm(f"Move the metadata of {config.log_dirs[0]} to zookeeper at {where}?", abort=True)
    done = asyncio.run(move(config, _tell))
    copied = f"{done.nodes:,} nodes" if done.nodes else "nodes copied by an earlier run"
    say(f"cluster {done.cluster_id}: {done.topics:,} topics, {copied}, at zookeeper.connect={where}")
    say("Start the broker with these settings, then run `pybroker cluster health` for the remaining steps.")


def _to_quorum(config: BrokerConfig, origin: str, yes: bool) -> None:
    import asyncio

    from pybroker.broker.offline.quorum_migration import migrate_broker, migrate_cluster

    alone = origin == "embedded"
    if not yes:
        place = config.log_dirs[0] if alone else f"the cluster at {config['zookeeper.connect']}"
        click.confirm(f"Move the metadata of {place} to a metadata log in {config.metadata_log_dir}?", abort=True)
    done = asyncio.run((migrate_broker if alone else migrate_cluster)(config, _tell))
    say(f"cluster {done.cluster_id}: {done.topics:,} topics, {done.partitions:,} partitions, in the metadata log")
    if alone:
        say("Start the broker with these settings.")
    else:
        say("Start this broker with metadata.store=quorum and without the settings of ZooKeeper.")
    say(f"Then start other brokers with these settings and --join {done.address}.")


def _tell(step: str) -> None:
    say(f"{step}: done")

"""`pybroker metadata`: moves the metadata store of a stopped broker."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup
from pybroker.cli.local_broker import local_broker, settings_options
from pybroker.cli.output import say


@click.group(cls=VerbGroup)
def metadata() -> None:
    """Move the metadata of a stopped broker to another store."""


@metadata.command()
@click.option("--to", "to", type=click.Choice(["zookeeper"]), required=True, help="Store to move the metadata to.")
@settings_options("Settings file of the broker for the cluster.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def migrate(to: str, file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Turn a single stopped broker into the first broker of a cluster.

    Pass the settings with which the broker will start: metadata.store=zookeeper, zookeeper.connect, a listener for
    brokers. All metadata moves to ZooKeeper with its ids; records stay in place. If the command is interrupted, run it
    again. At the end the old store is sealed: the broker then starts only with ZooKeeper.
    """
    import asyncio

    from pybroker.broker.offline.zookeeper_migration import migrate as move

    with local_broker(file, assignments) as config:
        where = config["zookeeper.connect"]
        if not yes:
            click.confirm(f"Move the metadata of {config.log_dirs[0]} to {to} at {where}?", abort=True)
        done = asyncio.run(move(config, lambda step: say(f"{step}: done")))
    copied = f"{done.nodes:,} nodes" if done.nodes else "nodes copied by an earlier run"
    say(f"cluster {done.cluster_id}: {done.topics:,} topics, {copied}, at zookeeper.connect={where}")
    say("Start the broker with these settings, then run `pybroker cluster health` for the remaining steps.")

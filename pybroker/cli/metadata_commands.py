"""`pybroker metadata`: moves the metadata store of a stopped broker."""

from __future__ import annotations

import click

from pybroker.cli.grammar import VerbGroup
from pybroker.cli.output import say


@click.group(cls=VerbGroup)
def metadata() -> None:
    """Where the metadata is kept, of a broker that does not run."""


@metadata.command()
@click.option("--to", "to", type=click.Choice(["zookeeper"]), required=True, help="Where the metadata goes.")
@click.option("--config", "file", metavar="FILE", type=click.Path(), help="The settings for the cluster.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; goes over the file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def migrate(to: str, file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Make a broker that was alone the first one of a cluster.

    The settings are those with which it is going to start: metadata.store=zookeeper, zookeeper.connect, a listener for
    brokers. All metadata goes to ZooKeeper with its ids; records stay where they are. If the command is interrupted,
    run it again. In the end the store in the data directory is sealed: a start on it names ZooKeeper.
    """
    import asyncio

    from pybroker.broker.offline.migrate import migrate as move
    from pybroker.config import ConfigError, load_config
    from pybroker.errors import StartError
    from pybroker.files import keep_private

    try:
        config = load_config(file, assignments).config
        keep_private(config.get_str("log.dirs.group.access"))
        where = config["zookeeper.connect"]
        if not yes:
            click.confirm(f"Move the metadata of {config.log_dirs[0]} to {to} at {where}?", abort=True)
        done = asyncio.run(move(config, lambda step: say(f"{step}: done")))
    except (ConfigError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename or config.log_dirs[0]}: {problem.strerror}") from None
    copied = f"{done.nodes:,} nodes" if done.nodes else "all that a run before had copied"
    say(f"cluster {done.cluster_id}: {done.topics:,} topics, {copied}, at zookeeper.connect={where}")
    say("start the broker with these settings now; `pybroker cluster health` says what is left to do")

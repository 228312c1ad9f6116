"""`pybroker cluster accept-restored-store`."""

from __future__ import annotations

import click

from pybroker.cli.output import say


@click.command("accept-restored-store")
@click.option("--config", "file", metavar="FILE", type=click.Path(), help="The broker's settings file.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; goes over the file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def accept_restored_store(file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Go on with a ZooKeeper that was wiped or restored from a backup, once for the whole cluster.

    This broker must be stopped. Topics that the store does not know any more are not served: their data is put aside
    and kept. For one delete.topic.delay.ms from now on no broker removes anything.
    """
    import asyncio

    from pybroker.broker.offline.restored_store import accept_restored_store as accept
    from pybroker.config import ConfigError, load_config
    from pybroker.errors import StartError
    from pybroker.files import keep_private

    try:
        config = load_config(file, assignments).config
        keep_private(config.get_str("log.dirs.group.access"))
        reason = asyncio.run(accept(config, agree=yes))
        if reason is not None and not yes:
            click.confirm(f"{reason}. Take the store at {config['zookeeper.connect']} as it is?", abort=True)
            reason = asyncio.run(accept(config, agree=True))
    except (ConfigError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    if reason is None:
        raise click.ClickException("The store is the one that this broker has seen last: there is nothing to accept.")
    say(f"Accepted: {reason}.")
    say("Start the brokers, and look at `pybroker topics deletions` and at their logs before the delay is over.")

"""`pybroker cluster unregister | adopt-id | accept-restored-store`: for lost brokers and restored stores."""

from __future__ import annotations

import click

from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.target import Target


@click.command()
@click.argument("broker", type=int)
@click.option("--yes", is_flag=True, help="Do not ask.")
@broker_options
def unregister(broker: int, *, yes: bool, target: Target) -> None:
    """Forget BROKER, which is dead and was drained: nobody waits for it any more.

    Deletions come to their end without what it has on its disks. What is running, or still has replicas, is refused.
    Should it come back, it finds that its replicas are none: what nobody knows any more is kept for you to decide
    (pybroker topics deletions).
    """
    if not yes:
        click.confirm(f"Broker {broker} is gone for ever?", abort=True, err=True)
    run(_unregister(target, broker))


async def _unregister(target: Target, broker: int) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.unregister_broker(broker)
    if target.json:
        write_json({"unregistered": broker})
    else:
        say(f"Broker {broker} is unregistered.")


@click.command("adopt-id")
@click.argument("cluster_id", metavar="ID")
@click.option("--config", "file", metavar="FILE", type=click.Path(), help="The broker's settings file.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; goes over the file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def adopt_id(cluster_id: str, file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Give a stopped broker the cluster id ID.

    A cluster id is meant to stay: whoever tells records or metrics by it sees another cluster from then on. For a
    metadata store that was made anew, or a log directory that was moved here from another cluster. With ZooKeeper ID
    must be the cluster's: the broker's directories take it over.
    """
    import asyncio

    from pybroker.broker.offline.cluster_id import adopt_cluster_id
    from pybroker.config import ConfigError, load_config
    from pybroker.errors import StartError
    from pybroker.files import keep_private

    try:
        config = load_config(file, assignments).config
        keep_private(config.get_str("log.dirs.group.access"))
        if not yes:
            click.confirm(f"Make {cluster_id} the cluster id of {', '.join(config.log_dirs)}?", abort=True)
        done = asyncio.run(adopt_cluster_id(config, cluster_id))
    except (ConfigError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename or config.log_dirs[0]}: {problem.strerror}") from None
    say(f"cluster id {done.before or '(none)'} -> {cluster_id}")
    for directory in done.directories:
        say(f"rewrote {directory / 'meta.properties'}")


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

"""`pybroker cluster unregister | adopt-id | accept-restored-store`: for lost brokers and restored stores."""

from __future__ import annotations

import click

from pybroker.cli.local_broker import local_broker, settings_options
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.target import Target


@click.command()
@click.argument("broker", type=int)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@broker_options
def unregister(broker: int, *, yes: bool, target: Target) -> None:
    """Remove a dead BROKER from the metadata.

    Drain it first.

    Pending deletions finish without the data on its disks. The command refuses a broker that is running or still has
    replicas. If the broker starts again, it sets aside replicas of topics that the cluster does not know: see `pybroker
    topics deletions`.
    """
    if not yes:
        click.confirm(f"Remove broker {broker} permanently?", abort=True, err=True)
    run(_unregister(target, broker))


async def _unregister(target: Target, broker: int) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.unregister_broker(broker)
    if target.json:
        write_json({"unregistered": broker})
    else:
        say(f"Removed broker {broker}.")


@click.command("adopt-id")
@click.argument("cluster_id", metavar="ID")
@settings_options()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def adopt_id(cluster_id: str, file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Set the cluster id of a stopped broker to ID.

    Use it after the metadata store was recreated, or for a log directory that came from another cluster. Consumers of
    records or metrics that use the cluster id see a new cluster afterwards. With several brokers, ID must be the id of
    the cluster; the command writes it to the broker's directories.
    """
    import asyncio

    from pybroker.broker.offline.cluster_id_change import adopt_cluster_id

    with local_broker(file, assignments) as config:
        if not yes:
            click.confirm(f"Set the cluster id of {', '.join(config.log_dirs)} to {cluster_id}?", abort=True)
        done = asyncio.run(adopt_cluster_id(config, cluster_id))
    say(f"cluster id {done.before or '(none)'} -> {cluster_id}")
    for directory in done.directories:
        say(f"rewrote {directory / 'meta.properties'}")


@click.command("accept-restored-store")
@settings_options()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def accept_restored_store(file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Accept a restored ZooKeeper.

    Run it once per cluster if ZooKeeper's data was wiped or restored from a backup.

    This broker must be stopped. Topics that ZooKeeper no longer knows are not served; the brokers set their data aside
    and keep it. No broker removes data during the next delete.topic.delay.ms.
    """
    import asyncio

    from pybroker.broker.offline.restored_store import accept_restored_store as accept

    with local_broker(file, assignments) as config:
        reason = asyncio.run(accept(config, agree=yes))
        if reason is not None and not yes:
            click.confirm(
                f"{reason}. Accept the current contents of ZooKeeper at {config['zookeeper.connect']}?", abort=True
            )
            reason = asyncio.run(accept(config, agree=True))
    if reason is None:
        raise click.ClickException(
            "This broker already uses the current state of ZooKeeper; there is nothing to accept."
        )
    say(f"Accepted: {reason}.")
    say("Start the brokers. Check their logs and `pybroker topics deletions` before delete.topic.delay.ms has passed.")

"""`pybroker cluster id | log-dirs`."""

from __future__ import annotations

import click

from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.shell_completion import broker_ids
from pybroker.cli.target import Target


@click.command("id")
@broker_options
def cluster_id(target: Target) -> None:
    """Show the cluster id."""
    run(_id(target))


@click.command("log-dirs")
@click.option(
    "--broker",
    "brokers",
    type=int,
    multiple=True,
    shell_complete=broker_ids,
    help="Show only this broker; repeatable.",
)
@broker_options
def log_dirs(target: Target, brokers: tuple[int, ...]) -> None:
    """Show log directories and free space."""
    run(_log_dirs(target, brokers))


async def _id(target: Target) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = (await admin.describe_cluster()).cluster_id
    if target.json:
        write_json({"cluster_id": found})
    elif found is None:
        raise click.ClickException("The cluster has no id: its brokers are older than Kafka 0.10.1.")
    else:
        say(found)


async def _log_dirs(target: Target, brokers: tuple[int, ...]) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = await admin.describe_log_dirs(brokers or None)
    rows = [
        {
            "broker": broker,
            "log_dir": path,
            "state": "offline" if about.error_code else "online",
            "partitions": len(about.replicas),
            "bytes": sum(replica.size for replica in about.replicas.values()),
            "total_bytes": about.total_bytes,
            "usable_bytes": about.usable_bytes,
        }
        for broker, directories in sorted(found.items())
        for path, about in sorted(directories.items())
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["broker", "log_dir", "state", "partitions", "bytes", "usable_bytes", "total_bytes"])

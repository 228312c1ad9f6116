"""`pybroker start`."""

from __future__ import annotations

import click

from pybroker.cli.local_broker import settings_options


@click.command()
@settings_options("Settings file: one key=value per line, as in Kafka's server.properties.")
@click.option(
    "--join",
    "addresses",
    metavar="HOST:PORT",
    multiple=True,
    help="Join the cluster (metadata.store=quorum) of the broker with this listener for brokers; repeatable. Has no "
    "effect once the broker belongs to a cluster.",
)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--parent-fd", type=int, hidden=True)
def start(
    file: str | None,
    assignments: tuple[str, ...],
    addresses: tuple[str, ...],
    ready_fd: int | None,
    parent_fd: int | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Defaults: data in ./pybroker-data, clients at 127.0.0.1:9092.
    """
    from pybroker.broker.lifecycle.process.foreground import start_command

    raise SystemExit(start_command(file, assignments, ready_fd, parent_fd, addresses))

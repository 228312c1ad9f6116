"""`pybroker cluster unregister`."""

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

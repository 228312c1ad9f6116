"""`pybroker cluster adopt-id`."""

from __future__ import annotations

import click

from pybroker.cli.output import say


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

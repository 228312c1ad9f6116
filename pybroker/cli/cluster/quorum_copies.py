"""`pybroker cluster quorum backup`, `restore`, `recover` and `accept-restored`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pybroker.cli.local_broker import local_broker, settings_options
from pybroker.cli.output import say, write_json


@click.command()
@click.argument("target", metavar="FILE|DIR", type=click.Path(path_type=Path))
@settings_options()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def backup(target: Path, file: str | None, assignments: tuple[str, ...], as_json: bool) -> None:
    """Back up the metadata that this broker has applied.

    The broker on this machine may run or be stopped. The backup is a snapshot of the metadata log; a running broker's
    last second may be missing. Beside it is a JSON file with its position and checksum; `restore` needs both.
    """
    import msgspec

    from pybroker.broker.offline import quorum_copies

    with local_broker(file, assignments) as config:
        made = quorum_copies.backup(config, target)
    manifest = made.manifest
    if as_json:
        write_json({"path": str(made.path), **msgspec.structs.asdict(manifest)})
        return
    say(f"{made.path}: cluster {manifest.cluster_id}, end_offset={manifest.end_offset} epoch={manifest.epoch}")
    say(f"{manifest.bytes:,} bytes, sha256={manifest.sha256}")


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@settings_options()
@click.option("--accept-older", is_flag=True, help="Restore the backup although this broker has newer metadata.")
def restore(source: Path, file: str | None, assignments: tuple[str, ...], accept_older: bool) -> None:
    """Begin the metadata log of a stopped broker with a backup.

    Only for a cluster that has lost its metadata log on a majority of voters. The broker becomes the only voter. Then
    run `accept-restored` on each other broker while it is stopped, and start them: they become voters again.
    """
    from pybroker.broker.offline import quorum_copies

    with local_broker(file, assignments) as config:
        made = quorum_copies.read_backup(source)
        reason = quorum_copies.objection(config, made.manifest)
        if reason is not None and not accept_older:
            raise click.ClickException(
                f"Nothing was changed: {reason}. To restore it nevertheless, add --accept-older."
            )
        aside = quorum_copies.restore(config, made)
    manifest = made.manifest
    say(f"restored: cluster {manifest.cluster_id}, end_offset={manifest.end_offset} epoch={manifest.epoch}")
    _say_aside(aside)
    say("Start this broker. On each other broker run `pybroker cluster quorum accept-restored` before its start.")


@click.command()
@settings_options()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def recover(file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Make a stopped broker the only voter.

    Only for a cluster that has lost a majority of its voters for good. Changes that only the lost voters have on disk
    are lost. The lost voters must not come back with their metadata logs: they would form a second cluster.
    """
    from pybroker.broker.offline import quorum_copies

    with local_broker(file, assignments) as config:
        found = quorum_copies.survivor(config)
        for line in _what_is_left(found):
            say(line)
        if not yes:
            click.confirm(f"Make broker {config.broker_id} the only voter of the metadata log?", abort=True)
        quorum_copies.recover(config)
    say(f"Broker {config.broker_id} is the only voter. Start it, and check topics and users.")
    say("On each other broker run `pybroker cluster quorum accept-restored` before its start.")


def _what_is_left(found: Any) -> Iterator[str]:
    log, seen = found.log, found.seen
    yield f"voters: {', '.join(str(voter.node_id) for voter in log.voters) or '(none)'}"
    yield f"metadata log of this broker: end_offset={log.end_offset} epoch={log.last_epoch}"
    if seen is None:
        yield "applied by this broker: unknown"
    else:
        yield f"applied by this broker: offset={seen.offset} epoch={seen.epoch}"
    if found.lost:
        yield f"WARNING: {found.lost} offsets that this broker has applied are missing in its log and are lost."
    yield "WARNING: changes that only other voters have are lost. Prefer the voter with the highest epoch and offset."


@click.command("accept-restored")
@settings_options()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def accept_restored(file: str | None, assignments: tuple[str, ...], yes: bool) -> None:
    """Let a stopped broker follow a restored metadata log.

    Only after `restore` or `recover` on another broker. The metadata log of this broker is set aside, and it fetches
    that of the cluster. Its topics' data stays in place.
    """
    from pybroker.broker.offline import quorum_copies

    with local_broker(file, assignments) as config:
        if not yes:
            click.confirm(
                f"Set aside the metadata log of broker {config.broker_id}, which may be newer than the cluster's?",
                abort=True,
            )
        aside = quorum_copies.accept_restored(config)
    _say_aside(aside)
    say(f"Broker {config.broker_id} follows the cluster's metadata log at its next start.")


def _say_aside(aside: Path | None) -> None:
    if aside is not None:
        say(f"The previous metadata log is in {aside}.")

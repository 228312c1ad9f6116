"""`pybroker users`: SCRAM credentials of a running or stopped broker."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pybroker.cli.grammar import VerbGroup, named
from pybroker.cli.local_broker import local_broker, settings_options
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target
from pybroker.protocol.scram import (
    BY_NAME,
    STORED_ITERATIONS_MAX,
    STORED_ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)

if TYPE_CHECKING:
    from pybroker.broker.offline.offline_users import Place

Result = TypeVar("Result")


@click.group(cls=VerbGroup)
def users() -> None:
    """Manage users with SCRAM credentials.

    By default the commands use a running broker. To create the first user, pass --config or --data-dir of a stopped
    broker: the commands then change its metadata store, or ZooKeeper if all brokers of the cluster are stopped. In a
    metadata quorum they work before the first start, with the settings of the broker that founds the cluster.
    """


def offline_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--config`, `--set` and `--data-dir`; the function gets the location of the store as `place`, None for a
    running broker."""

    @settings_options("Settings file of a stopped broker.")
    @click.option("--data-dir", type=click.Path(path_type=Path), help="First data directory of a stopped broker.")
    @functools.wraps(command)
    def with_place(
        *args: object, file: str | None, assignments: tuple[str, ...], data_dir: Path | None, **rest: object
    ) -> None:
        command(*args, place=_place(file, assignments, data_dir), **rest)

    return with_place


def _place(file: str | None, assignments: tuple[str, ...], data_dir: Path | None) -> Place | None:
    """Return the first data directory, or the settings of a broker in a cluster; None for a running broker."""
    if data_dir is not None:
        from pybroker.files import keep_private

        keep_private()
        return data_dir
    if file is None and not assignments:
        return None
    with local_broker(file, assignments) as config:
        return config if config.in_cluster else Path(config.log_dirs[0])


def _offline(work: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    from pybroker.errors import StartError

    try:
        return asyncio.run(work)
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from None


def _mechanisms(names: tuple[str, ...]) -> list[ScramMechanism]:
    return [BY_NAME[name] for name in names or BY_NAME]


def _password(file: Path | None) -> str:
    """Read a password from a file or the terminal. On the command line, every user of the machine could read it."""
    if file is None:
        entered: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return entered
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise click.ClickException(f"{file} cannot be read: {problem}") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.ClickException("The password is empty; enter at least one character.")
    return password


_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(tuple(BY_NAME)),
    multiple=True,
    help="Only this mechanism; default: both.",
)


@users.command()
@named("user", "NAME", "Name of the user.")
@_mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(STORED_ITERATIONS_MIN, STORED_ITERATIONS_MAX),
    default=STORED_ITERATIONS_MIN,
    show_default=True,
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the password from FILE (- for stdin) instead of the terminal.",
)
@offline_options
@broker_options
def add(
    user: str,
    mechanisms: tuple[str, ...],
    *,
    iterations: int,
    password_file: Path | None,
    place: Place | None,
    target: Target,
) -> None:
    """Add the user NAME, or change the password."""
    if not user:
        raise click.ClickException("The user name is empty.")
    password = _password(password_file)
    chosen = _mechanisms(mechanisms)
    if place is not None:
        from pybroker.broker.offline.offline_users import set_credentials

        _offline(
            set_credentials(
                place,
                user,
                {mechanism: ScramCredential.of_password(mechanism, password, iterations) for mechanism in chosen},
            )
        )
    else:
        from pybroker.client import ScramUpsertion

        _alter(target, [ScramUpsertion(user, password, mechanism, iterations) for mechanism in chosen])
    _done(target, user, chosen, "")


@users.command()
@named("user", "NAME", "Name of the user.")
@_mechanism_option
@offline_options
@broker_options
def remove(user: str, mechanisms: tuple[str, ...], *, place: Place | None, target: Target) -> None:
    """Remove credentials of the user NAME; default: of all mechanisms."""
    chosen = _mechanisms(mechanisms)
    if not mechanisms:
        there = {number for name, number, _ in _listed(place, target) if name == user}
        chosen = [mechanism for mechanism in chosen if mechanism.mechanism_name in there]
        if not chosen:
            raise click.ClickException(f"There is no user {user!r}.")
    if place is not None:
        from pybroker.broker.offline.offline_users import set_credentials

        _offline(set_credentials(place, user, dict.fromkeys(chosen)))
    else:
        from pybroker.client import ScramDeletion

        _alter(target, [ScramDeletion(user, mechanism) for mechanism in chosen])
    _done(target, user, chosen, "removed ")


def _done(target: Target, user: str, mechanisms: list[ScramMechanism], what: str) -> None:
    names = [mechanism.mechanism_name for mechanism in mechanisms]
    if target.json:
        write_json({"user": user, "mechanisms": names})
    else:
        say(f"user {user}: {what}{', '.join(names)}")


@users.command("list")
@offline_options
@broker_options
def list_users(*, place: Place | None, target: Target) -> None:
    """List users with their mechanisms."""
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": iterations}
        for name, mechanism, iterations in _listed(place, target)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ("user", "mechanism", "iterations"))


def _listed(place: Place | None, target: Target) -> list[tuple[str, str, int]]:
    if place is not None:
        from pybroker.broker.offline.offline_users import list_credentials

        stored = _offline(list_credentials(place))
        return [(name, info.mechanism_name, iterations) for name, infos in stored.items() for info, iterations in infos]
    from pybroker.client import AdminClient

    async def work() -> list[tuple[str, str, int]]:
        async with AdminClient(target.client_config()) as admin:
            found = await admin.describe_user_scram_credentials()
        return [
            (name, info.mechanism.mechanism_name, info.iterations)
            for name, infos in sorted(found.items())
            for info in infos
        ]

    return run(work())


def _alter(target: Target, changes: list[Any]) -> None:
    from pybroker.client import AdminClient

    async def work() -> None:
        async with AdminClient(target.client_config()) as admin:
            await admin.alter_user_scram_credentials(changes)

    run(work())

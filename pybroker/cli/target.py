"""The cluster of a command: the address, and client settings from a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

BOOTSTRAP_SERVER = "127.0.0.1:9092"
ADDRESS_OPTIONS = ("--bootstrap-server", "-b")
ADDRESS_VARIABLE = "PYBROKER_BOOTSTRAP_SERVER"
PROFILE_VARIABLE = "PYBROKER_PROFILE"
WAIT = "bootstrap.wait.ms"
_IN_FRONT = "pybroker.cli.address"
"""Key in click's context for an address that was given before the command."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A command's broker, client settings and output format."""

    bootstrap_server: str
    """`host:port[,host:port…]`."""
    settings: dict[str, str]
    """Client settings under Kafka's names, from a file."""
    json: bool
    """Write JSON instead of a table."""

    def client_config(self) -> dict[str, Any]:
        """Return settings for `pybroker.client.AdminClient`."""
        return {**self.settings, "bootstrap.servers": self.bootstrap_server}


def address_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `--bootstrap-server`, short `-b`; the function gets it as `bootstrap_server`, None if it is not given."""
    return click.option(
        *ADDRESS_OPTIONS, "bootstrap_server", metavar="HOST:PORT[,…]", callback=_own_or_in_front, help=what
    )


def address_in_front() -> click.Option:
    """Return the same option for a group of commands. It applies to the command that follows."""
    return click.Option(
        ADDRESS_OPTIONS, metavar="HOST:PORT[,…]", expose_value=False, callback=_keep, help="Address of a broker."
    )


def split_address(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the address options at the beginning of a command line, and the rest."""
    at = 0
    while at < len(args) and args[at].partition("=")[0] in ADDRESS_OPTIONS:
        at += 1 if "=" in args[at] else 2
    return list(args[:at]), list(args[at:])


def target_of(address: str | None, command_config: Path | None, *, json: bool) -> Target:
    """Return the target of a command line. The address comes from the first of these that exists: `address`,
    PYBROKER_BOOTSTRAP_SERVER, bootstrap.servers in the file `command_config` or, without such a file, in the profile.

    Raises click.ClickException for an unreadable file.
    """
    settings = _read(command_config or profile())
    found = address or os.environ.get(ADDRESS_VARIABLE) or settings.get("bootstrap.servers") or BOOTSTRAP_SERVER
    return Target(found, settings, json)


def profile() -> Path | None:
    """Return the file of client settings that applies without `--command-config`; None if there is none.

    Raises click.ClickException if PYBROKER_PROFILE names a file that does not exist.
    """
    named = os.environ.get(PROFILE_VARIABLE)
    if named:
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    usual = Path(folder) / "pybroker" / "profile.properties"
    return usual if usual.exists() else None


def _read(file: Path | None) -> dict[str, str]:
    if file is None:
        return {}
    from pybroker.config.properties import PropertiesError, decode_properties, read_properties

    try:
        return {entry.key: entry.value for entry in read_properties(decode_properties(file.read_bytes()))}
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from None
    except PropertiesError as error:
        raise click.ClickException(f"{file}, line {error.line}: {error}") from None


def _keep(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_IN_FRONT] = value


def _own_or_in_front(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    found: str | None = value if value is not None else ctx.meta.get(_IN_FRONT)
    return found

"""What the commands that talk to a running broker share: their options and their errors."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from pybroker.printable import printable

Result = TypeVar("Result")
BOOTSTRAP_SERVER = "127.0.0.1:9092"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Which broker a command talks to, with which client settings, and for whom it writes."""

    bootstrap_server: str
    """`host:port[,host:port…]`."""
    command_config: Path | None
    """A file of client settings under Kafka's names, as `--command-config` of Kafka's tools."""
    json: bool
    """Write JSON instead of a table."""

    def client_config(self) -> dict[str, Any]:
        """Settings for `pybroker.client.AdminClient`: those of the file, then the address.

        Raises click.ClickException for a file that cannot be read.
        """
        return {**self._file_settings(), "bootstrap.servers": self.bootstrap_server}

    def _file_settings(self) -> dict[str, str]:
        if self.command_config is None:
            return {}
        from pybroker.config.properties import PropertiesError, read_properties

        try:
            text = self.command_config.read_text()
            return {entry.key: entry.value for entry in read_properties(text)}
        except (OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{self.command_config} cannot be read: {error}") from None
        except PropertiesError as error:
            raise click.ClickException(f"{self.command_config}, line {error.line}: {error}") from None


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--bootstrap-server`, `--command-config` and `--json`; the function gets them as `target`: Target."""

    @click.option(
        "--bootstrap-server",
        default=BOOTSTRAP_SERVER,
        show_default=True,
        metavar="HOST:PORT[,…]",
        help="The broker to ask.",
    )
    @click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Client settings under Kafka's names, one key=value a line.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Write JSON, for machines.")
    @click.option("--zookeeper", hidden=True)
    @functools.wraps(command)
    def with_target(
        *args: object,
        bootstrap_server: str,
        command_config: Path | None,
        as_json: bool,
        zookeeper: str | None,
        **rest: object,
    ) -> None:
        if zookeeper is not None:
            raise click.UsageError(
                "--zookeeper is refused: a change of topics behind the brokers' backs would lose their ids. "
                "Name a broker: --bootstrap-server host:port."
            )
        command(*args, target=Target(bootstrap_server, command_config, as_json), **rest)

    return with_target


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a command's work. What the broker refuses and a connection that fails are one line on stderr and exit
    code 1; a bug keeps its traceback.
    """
    with refusals_told():
        return asyncio.run(work)


@contextlib.contextmanager
def refusals_told() -> Iterator[None]:
    """As `run`, for what is done in the block."""
    try:
        yield
    except refusals() as error:
        raise click.ClickException(described(error)) from None


def described(error: Exception) -> str:
    """One of `refusals` for people."""
    from pybroker.errors import KafkaError

    text = sentence(error.code, error.message) if isinstance(error, KafkaError) else str(error)
    return printable(text) or "The broker did not answer in time."


def refusals() -> tuple[type[Exception], ...]:
    """What a broker that refuses or is away, and settings that nobody can use, are raised as."""
    from pybroker.config.values import ConfigError
    from pybroker.errors import KafkaError

    return ConfigError, KafkaError, OSError, TimeoutError


def sentence(code: int, message: str | None) -> str:
    """A Kafka error for people: its text and its name."""
    from pybroker.protocol.error_codes import error_name

    name = error_name(code)
    if not message or message.startswith(name):
        return message or name
    return f"{name}: {message}"

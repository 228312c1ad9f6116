"""Common options and errors of commands that talk to a running broker."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from pybroker.cli.target import ADDRESS_VARIABLE, BOOTSTRAP_SERVER, WAIT, address_option, target_of
from pybroker.printable import printable

Result = TypeVar("Result")


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--bootstrap-server`, `--command-config` and `--json`; the function gets them as `target`: Target."""

    @address_option(f"Address of a broker; default: {ADDRESS_VARIABLE}, a profile (docs/cli.md), {BOOTSTRAP_SERVER}.")
    @click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Client settings file: Kafka's names, one key=value per line.",
    )
    @click.option(
        "--wait-for-broker",
        "wait_s",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="Wait up to this time for a broker that is still starting.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Write the output as JSON.")
    @click.option("--zookeeper", hidden=True)
    @functools.wraps(command)
    def with_target(
        *args: object,
        bootstrap_server: str | None,
        command_config: Path | None,
        wait_s: float | None,
        as_json: bool,
        zookeeper: str | None,
        **rest: object,
    ) -> None:
        if zookeeper is not None:
            raise click.UsageError(
                "--zookeeper is not supported: changing topics without the brokers would lose their ids. Use "
                "--bootstrap-server host:port."
            )
        target = target_of(bootstrap_server, command_config, json=as_json)
        if wait_s is not None:
            target.settings[WAIT] = str(round(wait_s * 1000))
        command(*args, target=target, **rest)

    return with_target


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a command's coroutine. If a broker refuses a request or a connection fails, print one line on stderr and exit
    with code 1. A bug keeps its traceback."""
    with refusals_told():
        return asyncio.run(work)


@contextlib.contextmanager
def refusals_told() -> Iterator[None]:
    """Handle errors of the block in the way of `run`."""
    try:
        yield
    except refusals() as error:
        raise click.ClickException(described(error)) from None


def described(error: Exception) -> str:
    """Return an exception as a sentence. The exception must be one of `refusals`."""
    from pybroker.errors import KafkaError

    text = sentence(error.code, error.message) if isinstance(error, KafkaError) else str(error)
    return printable(text) or "The broker did not respond in time."


def refusals() -> tuple[type[Exception], ...]:
    """Return the exceptions for refusals by brokers, for missing responses, and for invalid settings."""
    from pybroker.config.setting_values import ConfigError
    from pybroker.errors import KafkaError

    return ConfigError, KafkaError, OSError, TimeoutError


def sentence(code: int, message: str | None) -> str:
    """Return a Kafka error as a sentence: its text and its name."""
    from pybroker.protocol.error_codes import error_name

    name = error_name(code)
    if not message or message.startswith(name):
        return message or name
    return f"{name}: {message}"

"""Commands that work on the files of a broker on this machine, by its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pybroker.config import BrokerConfig

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_options(file_help: str = "Settings file of the broker.") -> Callable[[Command], Command]:
    """Add `--config` and `--set`; the function gets them as `file` and `assignments`."""
    file = click.option("--config", "file", metavar="FILE", type=click.Path(), help=file_help)
    setting = click.option(
        "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Override one setting of the file; repeatable."
    )
    return lambda command: file(setting(command))


@contextmanager
def local_broker(file: str | None, assignments: tuple[str, ...]) -> Iterator[BrokerConfig]:
    """Yield the settings. New files get the privacy that the settings require. If the settings, the broker's state or
    its disk make the command impossible, exit with a one-line error."""
    from pybroker.config import ConfigError, load_config
    from pybroker.errors import StartError
    from pybroker.files import keep_private

    try:
        config = load_config(file, assignments).config
    except ConfigError as problem:
        raise click.ClickException(str(problem)) from None
    keep_private(config.get_str("log.dirs.group.access"))
    try:
        yield config
    except (ConfigError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename or config.log_dirs[0]}: {problem.strerror}") from None

"""`pybroker` and `python -m pybroker`."""

from __future__ import annotations

import sys

_START_OPTIONS = {
    "--config": "file",
    "--set": "assignments",
    "--join": "addresses",
    "--ready-fd": "ready_fd",
    "--parent-fd": "parent_fd",
}


def main() -> None:
    """Run the command line; the entry point of the installed script.

    A plain `pybroker start` does not import click, which takes a tenth of the start. Help, usage errors and all other
    commands go to `pybroker.cli`, which defines the same options.
    """
    options = plain_start(sys.argv[1:])
    if options is None:
        from pybroker.cli import cli

        cli(prog_name="pybroker")
    else:
        from pybroker.broker.lifecycle.process.foreground import start_command

        raise SystemExit(start_command(**options))  # type: ignore[arg-type]  # names and types are those of the command


def plain_start(arguments: list[str]) -> dict[str, str | int | tuple[str, ...] | None] | None:
    """Return the options of a plain `start` if all arguments are valid options of this command; otherwise None."""
    if arguments[:1] != ["start"]:
        return None
    file: str | None = None
    assignments: list[str] = []
    addresses: list[str] = []
    fds: dict[str, int] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option not in _START_OPTIONS:
            return None
        if not equals:
            value = next(rest, "")
        if option == "--config" and value:
            file = value
        elif option == "--set" and value:
            assignments.append(value)
        elif option == "--join" and value:
            addresses.append(value)
        elif option.endswith("-fd") and value.isdecimal():
            fds[_START_OPTIONS[option]] = int(value)
        else:
            return None
    return {
        "file": file,
        "assignments": tuple(assignments),
        "addresses": tuple(addresses),
        "ready_fd": fds.get("ready_fd"),
        "parent_fd": fds.get("parent_fd"),
    }


if __name__ == "__main__":
    main()

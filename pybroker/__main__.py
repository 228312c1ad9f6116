"""`pybroker` and `python -m pybroker`."""

from __future__ import annotations


def main() -> None:
    """Runs the command line; the entry point of the installed script."""
    from pybroker.cli import cli

    cli(prog_name="pybroker")


if __name__ == "__main__":
    main()

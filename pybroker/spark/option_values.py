"""Parsing of option values, and messages for unknown names."""

from __future__ import annotations

import difflib
import re

from pybroker.spark.source_errors import OptionError

SHORT, INT, LONG = 2**15 - 1, 2**31 - 1, 2**63 - 1


def number(name: str, text: str, least: int, most: int) -> int:
    """Parse a decimal integer. Raises OptionError."""
    if re.fullmatch("-?[0-9]{1,19}", text) and least <= int(text) <= most:
        return int(text)
    raise OptionError(f"{name}={text}: expected a whole number from {least} to {most}")


def flag(name: str, text: str) -> bool:
    """Parse `true` or `false`, in any case. Raises OptionError."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}={text}: expected true or false")
    return text.lower() == "true"


def unknown(name: str, known: list[str]) -> str:
    """Return an error message for an unknown name. The message contains the most similar known name."""
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"unknown option {name}" + (f"; did you mean {lower[near[0]]}?" if near else "")

"""Parsing of setting values: Kafka's types, strict rules, and the canonical text of a value.

Used by the tables (`broker_defs`, `topic_defs`), by the loader and by DescribeConfigs, which shows the canonical text.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from math import isfinite
from typing import TypeAlias

import msgspec

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The type of a setting, with the codes of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Where a broker setting can be changed at runtime (KIP-226): nowhere, per broker, or also for the whole cluster.
    """

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(Exception):
    """Invalid settings. The text has one line for each problem, with the setting, its value, its origin and the remedy.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class InvalidValue(ValueError):
    """A type or a validator refuses a value. The text is the end of the sentence "<setting>=<value>: …"."""


Validator: TypeAlias = Callable[[Value], None]


class ConfigKey(msgspec.Struct, frozen=True):
    """One row of a settings table."""

    name: str
    type: ConfigType
    default: Value
    documentation: str
    validator: Validator | None = None
    scope: Scope = Scope.READ_ONLY
    internal: bool = False
    """Internal settings have an effect, but DescribeConfigs does not list them (as Kafka's `defineInternal`)."""

    def parse(self, text: str) -> Value:
        """Return the typed value of `text`. Raises InvalidValue if the type or a validator refuses it."""
        value = parse_value(self.name, self.type, text)
        if self.validator is not None:
            self.validator(value)
        return value

    @property
    def sensitive(self) -> bool:
        """Whether the value is secret. A secret value never leaves the process, neither in responses nor in the log."""
        return self.type is ConfigType.PASSWORD


_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_value(name: str, kind: ConfigType, text: str) -> Value:
    """Parse `text` as a value of `kind`. Integers may have a unit if the setting's name ends with the dimension: `4h`
    for `….ms`, `1GiB` for `….bytes`. Raises InvalidValue if the text is not such a value.
    """
    text = text.strip()
    if kind in _INTEGER_BITS:
        return _parse_integer(name, kind, text)
    if kind is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise InvalidValue("expected true or false")
        return lowered == "true"
    if kind is ConfigType.DOUBLE:
        return _parse_double(text)
    if kind is ConfigType.LIST:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    return text


def _parse_integer(name: str, kind: ConfigType, text: str) -> int:
    digits, factor, unit_hint = text, 1, ""
    if name.endswith(".ms"):
        units, unit_hint = _DURATION_MS, " (valid units: ms, s, m, h, d)"
    elif name.endswith(".bytes"):
        units, unit_hint = _SIZE_BYTES, " (valid units: KiB, MiB, GiB, TiB)"
    else:
        units = {}
    # Try the longest suffix first, so that "ms" is not read as "m" and another letter.
    for suffix in sorted(units, key=len, reverse=True):
        if text.endswith(suffix):
            digits, factor = text[: -len(suffix)].rstrip(), units[suffix]
            break
    unsigned = digits[1:] if digits[:1] in ("-", "+") else digits
    if not (unsigned.isascii() and unsigned.isdigit() and len(unsigned) <= 20):
        raise InvalidValue(f"expected a whole number{unit_hint}")
    number = int(digits) * factor
    limit = 1 << (_INTEGER_BITS[kind] - 1)
    if not -limit <= number < limit:
        raise InvalidValue(f"out of range for a {_INTEGER_BITS[kind]}-bit number")
    return number


def _parse_double(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidValue("expected a number") from None
    if not isfinite(number):
        raise InvalidValue("expected a finite number")
    return number


def render_value(value: Value) -> str | None:
    """Return the canonical text of a value, as Kafka's tools show it; None if the value is None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e-", "E-")
    return str(value)


def at_least(low: int | float) -> Validator:
    """Return a validator for numbers from `low`; it accepts None (unset)."""

    def check(value: Value) -> None:
        if value is not None and value < low:  # type: ignore[operator]  # used only for numeric types
            raise InvalidValue(f"must be at least {low}")

    return check


def between(low: int | float, high: int | float) -> Validator:
    """Return a validator for numbers from `low` to `high`, both included; it accepts None (unset)."""

    def check(value: Value) -> None:
        if value is not None and not low <= value <= high:  # type: ignore[operator]  # used only for numeric types
            raise InvalidValue(f"must be between {low} and {high}")

    return check


CENTURY_MS = 100 * 365 * 86_400_000
"""Longest time span of pybroker's own settings. A point in time this far in the future still fits all messages and
texts."""


def one_of(*allowed: str) -> Validator:
    """Return a validator for exactly one of the words."""

    def check(value: Value) -> None:
        if value is not None and value not in allowed:
            raise InvalidValue(f"must be one of {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Validator:
    """Return a validator for one of the words, ignoring case."""

    def check(value: Value) -> None:
        if str(value).lower() not in allowed:
            raise InvalidValue(f"must be one of {', '.join(allowed)}")

    return check


def items_of(*allowed: str, empty: bool = True, repeated: bool = False) -> Validator:
    """Return a validator for a list of the words, each at most once unless `repeated`."""

    def check(value: Value) -> None:
        items = value if isinstance(value, tuple) else ()
        if not items and not empty:
            raise InvalidValue(f"must name at least one of {', '.join(allowed)}")
        if any(item not in allowed for item in items):
            raise InvalidValue(f"may only contain {', '.join(allowed)}")
        if not repeated and len(set(items)) != len(items):
            raise InvalidValue("must not list anything twice")

    return check


def unlike(value: Value) -> None:
    """Refuse a list with duplicate or empty items."""
    items = value if isinstance(value, tuple) else ()
    if "" in items or len(set(items)) != len(items):
        raise InvalidValue("must not contain empty or repeated entries")


def not_empty(value: Value) -> None:
    """Refuse an empty text or list."""
    if value in ("", (), None, ("",)):
        raise InvalidValue("must not be empty")
    if isinstance(value, tuple) and "" in value:
        raise InvalidValue("must not have an empty entry (two commas, or one at the beginning or end)")


def gzip_level(value: Value) -> None:
    """Accept zlib's levels (KIP-390); -1 is zlib's default."""
    if value != -1 and not (isinstance(value, int) and 1 <= value <= 9):
        raise InvalidValue("must be -1 or between 1 and 9")


def throttled_replicas(value: Value) -> None:
    """Accept `*`, an empty list, or partition:broker pairs (KIP-73)."""
    items = value if isinstance(value, tuple) else ()
    if items == ("*",):
        return
    for item in items:
        numbers = item.split(":")
        if len(numbers) != 2 or not all(_is_int(number) for number in numbers):
            raise InvalidValue("must be * or a list of partition:broker pairs")


def _is_int(text: str) -> bool:
    """Return whether the text is a non-negative int32 in digits only."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 1 << 31

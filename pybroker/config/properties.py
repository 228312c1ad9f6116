"""Java's properties format, the syntax of server.properties, as java.util.Properties.load reads it.

pybroker does not use the library javaproperties; only the tests compare this module with it. The library imports an XML
reader, urllib and an HTTP client, which take two thirds of the import time of all other modules at startup. The format
has not changed since 1996.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

_BLANK = " \t\f"
_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = str.maketrans({"\\": "\\\\", **{char: f"\\{name}" for name, char in _NAMED.items()}})
_WRITTEN_IN_KEY = {**_WRITTEN, **str.maketrans({char: f"\\{char}" for char in "=: #!"})}


class PropertiesError(ValueError):
    """Text that violates the format."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class Property(msgspec.Struct, frozen=True):
    """One key, its value, and the line (from 1) where it begins."""

    key: str
    value: str
    line: int


def decode_properties(raw: bytes) -> str:
    """Decode UTF-8 with or without a byte order mark; else Latin-1, the encoding of java.util.Properties."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_properties(text: str, malformed: list[PropertiesError] | None = None) -> Iterator[Property]:
    """Yield all properties in order. If a key repeats, the last property with this key counts. Raises PropertiesError,
    or appends it to `malformed` and continues on the next line.
    """
    lines = _NATURAL_LINE.split(text)
    index = 0
    while index < len(lines):
        begin, line = index + 1, lines[index].lstrip(_BLANK)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if index == len(lines):
                break
            line += lines[index].lstrip(_BLANK)
            index += 1
        if not line:
            continue  # All characters up to the end of the text are backslashes.
        key = _KEY.match(line)
        assert key is not None, "the pattern matches the empty text"
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, "the pattern matches the empty text"
        try:
            yield Property(_unescaped(key.group(), begin), _unescaped(line[separator.end() :], begin), begin)
        except PropertiesError as problem:
            if malformed is None:
                raise
            malformed.append(problem)


def write_properties(properties: Mapping[str, str]) -> str:
    """Return text that `read_properties` parses into these properties."""
    lines = []
    for key, value in properties.items():
        text = value.translate(_WRITTEN)
        # A leading blank would be read as part of the separator.
        blank = "\\" if text.startswith(" ") else ""
        lines.append(f"{key.translate(_WRITTEN_IN_KEY)}={blank}{text}\n")
    return "".join(lines)


def _continues(line: str) -> bool:
    """Return whether the line ends with an unescaped backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape == "u":
            raise PropertiesError(line, "a \\u must be followed by four hexadecimal digits")
        return chr(int(escape[1:], 16)) if escape[0] == "u" else _NAMED.get(escape, escape)

    plain = _ESCAPE.sub(replacement, text)
    try:
        # Two escapes may form one character above U+FFFF.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise PropertiesError(line, "a \\u names one half of a character only") from None

"""Templates of `consume --format`, with kcat's letters."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.client import ConsumerRecord

Part = Callable[["ConsumerRecord"], bytes]


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


LETTERS: dict[str, Part] = {
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "S": lambda record: _length(record.value),
    "R": lambda record: struct.pack(">i", -1 if record.value is None else len(record.value)),
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "t": lambda record: record.topic.encode(),
    "i": lambda record: str(record.topic_id).encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "h": _headers,
    "%": lambda record: b"%",
}
"""`s` or `v`: the value, `S` its length (-1: none), `R` the same as four bytes; `k`, `K` the key; `t` the topic, `i`
its id, `p` the partition, `o` the offset, `T` the time in milliseconds since 1970, `h` the headers."""

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(?P<letter>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))", re.DOTALL)


def compiled(template: str) -> Callable[[ConsumerRecord], bytes]:
    """Return a function that formats a record by a template. Raises ValueError for an unknown letter."""
    parts: list[Part] = []
    at = 0
    for token in _TOKEN.finditer(template):
        if token.start() > at:
            parts.append(_always(template[at : token.start()].encode()))
        parts.append(_part(token))
        at = token.end()
    if at < len(template):
        parts.append(_always(template[at:].encode()))
    return lambda record: b"".join([part(record) for part in parts])


def unescaped(text: str) -> bytes:
    """Return a command line's separator with its escapes (`\\n`, `\\t`, `\\x1f`…) replaced. Raises ValueError."""
    found = b""
    at = 0
    for token in _TOKEN.finditer(text):
        if token["letter"] is None:
            found += text[at : token.start()].encode() + _escaped(token)
            at = token.end()
    return found + text[at:].encode()


def _part(token: re.Match[str]) -> Part:
    if token["letter"] is None:
        return _always(_escaped(token))
    if token["letter"] not in LETTERS:
        raise ValueError(f"unknown format {token[0]!r}; valid: {' '.join('%' + letter for letter in LETTERS)}")
    return LETTERS[token["letter"]]


def _escaped(token: re.Match[str]) -> bytes:
    if token["hex"] is not None:
        return bytes.fromhex(token["hex"])
    if token["escape"] not in _ESCAPES:
        raise ValueError(f"{token[0]!r} is an unknown escape; valid: \\n \\r \\t \\0 \\\\ and \\xHH")
    return _ESCAPES[token["escape"]]


def _always(text: bytes) -> Part:
    return lambda _: text

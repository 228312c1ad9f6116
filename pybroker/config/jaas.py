"""One entry of a JAAS configuration, as in `sasl.jaas.config`: `<module> required <name>="<value>" …;`.

Behavior
* Names and values are words, or quoted with `"` or `'`; a backslash escapes as in Java (`\\n`, `\\t`, `\\101`).
* `//` and `/* */` are comments. The flag (required, …) may have any case. The last value of a name wins.

Differs from Kafka
* A word may have any character except blanks and `; = " '`; Kafka needs quotes for some of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pybroker.config.setting_values import InvalidValue

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*(?:"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<sign>[;=])|(?P<word>[^\s;="']+)|(?P<end>\Z))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    """A text, or one of the characters `;` and `=`, or the end (no text, no character)."""

    text: str | None
    sign: str


def module_of(jaas: str) -> str:
    """Return the entry's class name; empty if there is none."""
    try:
        return _tokens(jaas)[0].text or ""
    except InvalidValue:
        return ""


def options(jaas: str, module: str, example: str) -> dict[str, str]:
    """Return the options of an entry for this module. Raises InvalidValue if the entry is malformed or for another
    module; its text does not contain `jaas`.
    """
    tokens = _tokens(jaas)
    if tokens[0].text != module:
        raise InvalidValue(f"expected {module} required {example};")
    if len(tokens) < 2 or (tokens[1].text or "").lower() not in _FLAGS:
        raise InvalidValue("expected the flag 'required' after the login module")
    return _pairs(tokens[2:])


def options_of_client(jaas: str) -> dict[str, str]:
    """Return the options of an entry for any module. Raises InvalidValue if the entry is malformed. The
    message of the exception does not quote the entry, which may have a password."""
    return _pairs(_tokens(jaas)[2:])


def _pairs(rest: list[_Token]) -> dict[str, str]:
    found: dict[str, str] = {}
    while rest and rest[0].sign != ";":
        name, equals, value = [*rest[:3], *[_Token(None, "")] * 3][:3]
        if name.text is None and not name.sign:
            raise InvalidValue("missing semicolon at the end")
        if not name.text or equals.sign != "=" or value.text is None:
            raise InvalidValue('expected name="value" pairs and one semicolon at the end')
        found[name.text] = value.text
        rest = rest[3:]
    if rest[:1] != [_Token(None, ";")]:
        raise InvalidValue("missing semicolon at the end")
    if rest[1:] != [_Token(None, "")]:
        raise InvalidValue("expected a single entry; remove the text after the first semicolon")
    return found


def _tokens(jaas: str) -> list[_Token]:
    """Split into tokens. The last token is the end."""
    found: list[_Token] = []
    place = 0
    while not found or found[-1] != _Token(None, ""):
        match = _TOKEN.match(jaas, place)
        if match is None:
            raise InvalidValue("unclosed quotation mark")
        quoted = match["double"] if match["double"] is not None else match["single"]
        text = match["word"] if quoted is None else _ESCAPE.sub(_escaped, quoted)
        found.append(_Token(text, match["sign"] or ""))
        place = match.end()
    return found


def _escaped(match: re.Match[str]) -> str:
    sign = match[1]
    return chr(int(sign, 8)) if sign[0] in "01234567" else _NAMED.get(sign, sign)

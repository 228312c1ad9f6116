"""Regular expressions from clients. This module estimates the cost of compiling an expression.

The compiler expands counted repetitions and knows all of Unicode, so an expression of ten characters can take a second.
`native.Pattern` refuses expressions that are too large, but only after this second.
"""

from __future__ import annotations

import re

from pybroker.native import Pattern

CHARACTERS_MAX = 4_096
WEIGHT_MAX = 400.0
"""Size limit of a compiled expression, about in kilobytes: eight Unicode classes, 400 dots, or 10,000 letters."""

_LETTER, _LETTER_OF_ANY_CASE, _ANY, _DIGIT_OR_SPACE, _UNICODE_CLASS = 0.04, 0.25, 1.0, 6.0, 52.0
_COUNTED = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}")
_CLASS_ESCAPE = re.compile(r"\\[pPwW]")
_VERBOSE = re.compile(r"\(\?[A-Za-z-]*x[A-Za-z-]*[:)]")
_ANY_CASE = re.compile(r"\(\?[A-Za-z-]*i")


def compiled(text: str) -> Pattern:
    """Compile an expression that must match a whole text. Raises ValueError if it is invalid or too expensive."""
    if len(text) > CHARACTERS_MAX:
        raise ValueError(f"the pattern has {len(text)} characters; the limit is {CHARACTERS_MAX}")
    if _VERBOSE.search(text):
        raise ValueError("the flag x is not supported")
    if weight(text) > WEIGHT_MAX:
        raise ValueError("the pattern has too many repetitions or classes")
    return Pattern(text)


def weight(text: str) -> float:
    """Return the approximate size of the compiled expression in kilobytes."""
    letter = _LETTER_OF_ANY_CASE if _ANY_CASE.search(text) else _LETTER
    sums, last, at = [0.0], 0.0, 0
    while at < len(text):
        counted = _COUNTED.match(text, at)
        if counted is not None:
            least, most = counted.groups()
            times = max(int(number) for number in (least, most or 0))
            sums[-1] += last * (times - 1)
            last, at = last * times, counted.end()
            continue
        character = text[at]
        if character == "(":
            sums.append(0.0)
            at += 1
            continue
        if character == ")":
            last, at = sums.pop(), at + 1
            sums = sums or [0.0]
        elif character in "*+?|":
            at += 1
            continue
        elif character == "\\":
            last, at = _escaped(text, at, letter)
        elif character == "[":
            last, at = _class(text, at, letter)
        else:
            last, at = _ANY if character == "." or character > "~" else letter, at + 1
        sums[-1] += last
    return sum(sums)


def _escaped(text: str, at: int, letter: float) -> tuple[float, int]:
    """Return the weight of an escape sequence and the index behind it."""
    kind = text[at + 1 : at + 2]
    end = at + 2
    if kind in ("p", "P", "x", "u", "U"):
        if text[end : end + 1] == "{":
            closed = text.find("}", end)
            end = len(text) if closed < 0 else closed + 1
        elif kind in ("p", "P"):
            end += 1
    if kind in ("p", "P", "w", "W"):
        return _UNICODE_CLASS, end
    return _DIGIT_OR_SPACE if kind in ("d", "D", "s", "S") else letter, end


def _class(text: str, at: int, letter: float) -> tuple[float, int]:
    """Return the weight of a bracket expression and the index behind it; classes may be nested."""
    depth, end = 0, at
    while end < len(text):
        if text[end] == "\\":
            end += 1
        elif text[end] == "[":
            depth += 1
        elif text[end] == "]" and end > at + 1 and text[at + 1 : end] != "^":
            depth -= 1
            if not depth:
                break
        end += 1
    inside = text[at:end]
    if _CLASS_ESCAPE.search(inside):
        return _UNICODE_CLASS, end + 1
    plain = inside.isascii() and "^" not in inside and "\\" not in inside
    return letter if plain else _DIGIT_OR_SPACE, end + 1

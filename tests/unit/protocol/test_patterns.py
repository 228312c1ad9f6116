"""A regular expression of a client that is too expensive is refused before it is compiled."""

from __future__ import annotations

import pytest

from pybroker.protocol import patterns
from pybroker.protocol.patterns import WEIGHT_MAX, compiled, weight


@pytest.mark.parametrize(
    "text",
    [
        "orders|payments-.*",
        r"^(a|b)-\w+-v[0-9]{1,3}$",
        r"[^.]+\.[^.]+",
        r"\w+-\w+-\w+\.\w+",
        r"(?i)ORDERS\.(eu|us)\.\d{4}-\d{2}",
        "|".join(f"topic-{number}" for number in range(300)),
        r"\x{61}{5}\p{Lu}[[:alpha:]]+[]a]{5}",
    ],
)
def test_expressions_that_people_write_are_taken(text: str) -> None:
    assert compiled(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        ".{1000}",
        r"\w{50}",
        r"(\pL{10}){10}",
        "(a|b|c|.{200}){40}",
        r"[\w-]{9}",
        "[^a]{99}",
        "(?i)k{3000}",
        "((((a{20}){20}){20}){20})",
        r"\x{61}{99999}",
        "a{ 1 , 99999 }",
        "a{99999,}",
        "é{999}",
        "(?x)a{ # a comment\n9999}",
        "a" * 5_000,
    ],
)
def test_expressions_that_would_hold_the_loop_are_not_compiled(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "Pattern", lambda _: pytest.fail("it is compiled"))
    with pytest.raises(ValueError, match=r"characters|repetitions|flag"):
        compiled(text)


@pytest.mark.parametrize("text", ["(a", "a)", "[a", "\\", ")(", "a{2", "{2}", "[]", "(?", "\\p", "\\p{L", ""])
def test_any_text_has_a_weight(text: str) -> None:
    assert 0 <= weight(text) < WEIGHT_MAX

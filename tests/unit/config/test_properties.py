"""server.properties as text: the format's rules, with javaproperties as the oracle."""

from __future__ import annotations

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config.properties import PropertiesError, Property, read_properties, write_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in read_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("  a \t = \f 1 ", [("a", "1 ")]),
        ("# c\n  ! c\n\n \t\na=1", [("a", "1")]),
        ("a=1\\\n   2\\\r\n3", [("a", "123")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment")]),
        ("# comment \\\na=1", [("a", "1")]),
        ("a\\ b\\=c=d=e", [("a b=c", "d=e")]),
        ("a==1", [("a", "=1")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("a=\\t\\n\\q\\u0041\\uD83D\\uDE00", [("a", "\t\nqA😀")]),
        ("a=1\ra=2", [("a", "1"), ("a", "2")]),
        ("a=1\\", [("a", "1")]),
        ("", []),
    ],
)
def test_format(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_lines_are_counted() -> None:
    assert list(read_properties("# one\na=1\\\n2\n\nb=3"))[1] == Property("b", "3", 5)


@pytest.mark.parametrize("text", ["a=\\u12", "\\uzzzz=1", "a=\\uD83D", "a=\\uDE00\\uD83D"])
def test_refused(text: str) -> None:
    with pytest.raises(PropertiesError) as caught:
        pairs(f"\n{text}")
    assert caught.value.line == 2


@given(st.text(alphabet=st.sampled_from("ab=: \t\f\n\r\\#!u0041n"), max_size=40))
def test_agrees_with_the_oracle(text: str) -> None:
    try:
        elements = list(javaproperties.parse(text))
        expected = [(one.key, one.value) for one in elements if isinstance(one, javaproperties.KeyValue)]
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(PropertiesError):
            pairs(text)
        return
    assert pairs(text) == expected


ALPHABET = st.sampled_from("ab=: \t\f\n\r\\#!u0é😀")


@given(st.dictionaries(st.text(ALPHABET, min_size=1), st.text(ALPHABET)))
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    text = write_properties(properties)
    assert dict(pairs(text)) == properties
    assert javaproperties.loads(text) == properties

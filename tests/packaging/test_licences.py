"""Everything that the locks pin has an allowed licence."""

from __future__ import annotations

import pytest

from tests.packaging import licences

ELSEWHERE = {"async-timeout", "backports-asyncio-runner", "cffi", "colorama", "exceptiongroup", "importlib-metadata"}
ELSEWHERE |= {"pycparser", "pywin32", "tomli", "tzdata", "zipp"}
"""Packages for other systems and Python versions in a universal lock."""


def test_all_that_is_locked_is_allowed() -> None:
    assert list(licences.refused()) == []


def test_nothing_of_the_locks_is_passed_over() -> None:
    assert {(each.name, each.version) for each in licences.crates()} == licences.locked_crates()
    missing = licences.locked_packages() - {each.name for each in licences.packages()}
    assert missing <= ELSEWHERE
    assert {"click", "kazoo", "msgspec", "rich"} <= licences.product_packages()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("GPL-3.0 OR (MIT AND Zlib)", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
        ("(MIT", False),
        ("MIT )", False),
        ("", False),
    ],
)
def test_expressions(expression: str, expected: bool) -> None:
    assert licences.is_allowed(expression, licences.crates_allowed()) is expected


def test_the_list_names_every_part() -> None:
    text = licences.listed()
    assert [each.name for each in (*licences.crates(), *licences.packages()) if f"| {each.name} |" not in text] == []

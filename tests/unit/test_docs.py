"""The pages for users name only what is there: settings of the table, files and tests of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybroker.config import BROKER_SETTINGS, TOPIC_SETTINGS

ROOT = Path(__file__).parents[2]
NAMED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "native/README.md")
PAGES = [ROOT / name for name in NAMED] + sorted(ROOT.glob("docs/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    # Steps of a request's way are named without ".py" or ".rs".
    named = re.findall(r"`((?:tests|native|docs|benches)/[\w/.]+|pybroker/[\w/]+\.py)`", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_settings_of_the_operations_page_exist() -> None:
    rows = re.findall(r"^\| (`[a-z].*?) \|", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:\.[a-z0-9]+)+)`", row)}
    assert {"log.flush.mode", "queued.max.requests", "max.message.bytes"} <= names
    assert names - set(BROKER_SETTINGS) - set(TOPIC_SETTINGS) == set()


def test_tests_named_on_the_clients_page_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "clients.md").read_text()))
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in code} == set()

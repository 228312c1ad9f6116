"""The site of the docs: every page in its navigation, every link inside of it. `make docs` builds it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def leaves(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [leaf for part in parts for leaf in leaves(part)]  # type: ignore[attr-defined]


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as the generator makes them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [*DOCS.glob("*.md"), DOCS / "decisions" / "index.md"]
    assert Counter(leaves(SITE["nav"])) == Counter(str(page.relative_to(DOCS)) for page in pages)


def test_the_index_of_decisions_links_each_of_them() -> None:
    linked = re.findall(r"\]\((\d{4}-[^)]*)\)", (DOCS / "decisions" / "index.md").read_text())
    assert sorted(linked) == sorted(page.name for page in (DOCS / "decisions").glob("[0-9]*.md"))


def test_links_stay_inside_and_lead_somewhere() -> None:
    wrong = []
    for page in DOCS.rglob("*.md"):
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)(?:#([^)]*))?\)", page.read_text()):
            other = (page.parent / target).resolve() if target else page
            if not other.is_file() or not other.is_relative_to(DOCS):
                wrong.append((page.name, target))
            elif anchor and anchor not in anchors(other.read_text()):
                wrong.append((page.name, f"{target}#{anchor}"))
    assert wrong == []


def test_the_site_needs_nothing_from_the_net() -> None:
    assert SITE["theme"]["font"] is False
    assert SITE["strict"] is True


def test_the_toolchain_file_takes_what_is_installed() -> None:
    """It names no components and no version that rustup would fetch."""
    text = (ROOT / "rust-toolchain.toml").read_text()
    assert re.findall(r"^(\w+) *=", text, re.MULTILINE) == ["channel"]
    done = subprocess.run(["cargo", "--version"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "download" not in done.stderr

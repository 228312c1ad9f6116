"""The screenshot in README.md, which `make docs` takes again."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tests.console import screenshot

ROOT = Path(__file__).parents[2]
PICTURE = "docs/assets/console.png"
BYTES_MAX = 150_000
HEIGHT_MIN = 400


def size(png: bytes) -> tuple[int, int]:
    """Return width and height in pixels."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) <= BYTES_MAX
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_the_screenshot_is_taken_again(tmp_path: Path) -> None:
    screenshot.take(tmp_path / "console.png")
    width, height = size((tmp_path / "console.png").read_bytes())
    assert width == screenshot.WIDTH
    assert height >= HEIGHT_MIN
    # Heights depend on the fonts of a machine.
    assert size((ROOT / PICTURE).read_bytes())[0] == width, "run make docs"


def test_readers_see_what_make_docs_writes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    rules = re.search(r"^docs:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert rules is not None
    assert f"tests.console.screenshot {PICTURE}" in rules[1]
    assert f"]({PICTURE})" in (ROOT / "README.md").read_text()
    assert f"]({PICTURE.removeprefix('docs/')})" in (ROOT / "docs" / "console.md").read_text()

"""The extras' lower bounds exclude releases with known vulnerabilities, and the lock files pin no lower release."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MENDED = {
    "cryptography": ("46.0.5", "CVE-2026-26007"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "joserfc": ("1.6.3", "CVE-2026-27932"),
    "protobuf": ("6.33.5", "CVE-2026-0994"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "requests": ("2.33.0", "CVE-2026-25645"),
    "starlette": ("0.49.1", "CVE-2025-62727"),
    "urllib3": ("2.6.3", "CVE-2026-21441"),
}
"""The release that fixes the newest vulnerability known when this was written."""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("post")[0]))


def lower_bounds() -> dict[str, str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [requirement for extra in extras.values() for requirement in extra]
    return {match[1]: match[2] for one in wanted if (match := re.match(r"([\w-]+)>=([\d.]+)", one))}


@pytest.mark.parametrize("package", sorted(MENDED))
def test_releases_with_known_vulnerabilities_are_left_out(package: str) -> None:
    mended, vulnerability = MENDED[package]
    assert (*numbers(lower_bounds()[package]), 0, 0) >= numbers(mended), vulnerability


@pytest.mark.parametrize("lock", sorted(path.name for path in (ROOT / "tests").glob("*.lock")))
def test_what_is_locked_is_not_below_the_bounds(lock: str) -> None:
    locked = re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "tests" / lock).read_text(), re.MULTILINE)
    bounds = lower_bounds()
    below = [name for name, version in locked if name in bounds and numbers(version) < numbers(bounds[name])]
    assert not below

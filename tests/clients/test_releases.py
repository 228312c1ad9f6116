"""The page for users names the releases that are tested."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests.clients.conftest import CLIENTS
from tests.clients.releases import LOCKS, RELEASES, newest

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
FIGURES = r"[\d., ]+"


def test_the_table_of_releases_is_what_is_tested() -> None:
    table = re.findall(rf"^\| ([\w-]+) \| ({FIGURES}) \| ({FIGURES}) \| ({FIGURES}) \|", PAGE.read_text(), re.MULTILINE)
    shown = {family: [oldest, *between.split(", "), newest] for family, oldest, between, newest in table}
    tested = defaultdict(list)
    for release in RELEASES:
        tested[release.family].append(release.version)
    for family, version in newest().items():
        tested[family].append(version)
    assert shown == tested
    assert set(shown) == set(CLIENTS)


def test_releases_of_a_family_are_in_order() -> None:
    for family, last in newest().items():
        versions = [*(release.version for release in RELEASES if release.family == family), last]
        assert versions == sorted(versions, key=lambda version: [int(number) for number in version.split(".")])
        assert len(versions) >= 3, family


def test_every_release_has_a_lock_and_every_lock_a_release() -> None:
    assert {path.name.rpartition(".")[0] for path in LOCKS.iterdir()} == {str(release) for release in RELEASES}
    for release in RELEASES:
        texts = "".join(path.read_text() for path in LOCKS.glob(f"{release}.*"))
        assert release.version in texts, release

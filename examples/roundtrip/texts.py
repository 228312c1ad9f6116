"""The loaded data: text files, one record per line, and digests that compare copies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy", "pandas")
# A file with a NUL byte in its first bytes is not text.
PROBE_BYTES = 8192
# Longer lines become several records: a record must fit `max.message.bytes` (1 MiB by default).
LINE_BYTES_MAX = 512 * 1024
SEPARATOR = b"\0"


@dataclass(frozen=True)
class TextFile:
    """A file to load; its key is the key of its records."""

    key: str
    path: str


@dataclass
class Digest:
    """An order-independent digest of records: two equal digests mean equal records.

    Each record adds the first 60 bits of SHA-256 over key, a NUL byte and value. Spark computes the same in SQL.
    """

    records: int = 0
    size_bytes: int = 0
    total: int = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record."""
        self.records += 1
        self.size_bytes += len(key) + len(value)
        self.total += int(hashlib.sha256(key + SEPARATOR + value).hexdigest()[:15], 16)


@dataclass
class Copy:
    """Records read back: their set, and the order of each key's records."""

    digest: Digest = field(default_factory=Digest)
    by_key: dict[bytes, hashlib._Hash] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """Add the next record; records of one key arrive in the order of the topic."""
        self.digest.add(key, value)
        running = self.by_key.get(key)
        if running is None:
            running = self.by_key[key] = hashlib.sha256()
        running.update(value + b"\n")

    def order(self) -> str:
        """Return a digest of the contents of all files in order."""
        whole = hashlib.sha256()
        for key in sorted(self.by_key):
            whole.update(key + SEPARATOR + self.by_key[key].digest())
        return whole.hexdigest()


def lines_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, without line ends; overlong ones in pieces."""
    for line in Path(path).read_bytes().splitlines():
        if len(line) <= LINE_BYTES_MAX:
            yield line
        else:
            yield from (line[start : start + LINE_BYTES_MAX] for start in range(0, len(line), LINE_BYTES_MAX))


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(PROBE_BYTES)
    return bool(start) and b"\0" not in start


def installed_texts(packages: Iterable[str] = PACKAGES) -> list[TextFile]:
    """Return the text files of installed packages, keyed by their path inside site-packages.

    Installers' own records (`*.dist-info`) and compiled files differ between machines and are excluded: with pinned
    versions the counts and digests are the same everywhere.
    """
    found = []
    for package in packages:
        try:
            files = distribution(package).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            outside = file.parts[0] == ".." or file.parts[0].endswith(".dist-info")
            if not outside and file.suffix != ".pyc" and path.is_file() and _is_text(path):
                found.append(TextFile(file.as_posix(), str(path)))
    return sorted(found, key=lambda each: each.key)


def user_texts(given: Path) -> list[TextFile]:
    """Return the user's file, or all text files below a folder, keyed by their path inside it."""
    given = given.resolve()
    if given.is_file():
        return [TextFile(given.name, str(given))]
    return [
        TextFile(path.relative_to(given).as_posix(), str(path))
        for path in sorted(given.rglob("*"))
        if path.is_file() and _is_text(path)
    ]


def expected(files: Iterable[TextFile]) -> Copy:
    """Return the expected contents of a topic, read from the files without Spark or a broker."""
    copy = Copy()
    for file in files:
        key = file.key.encode()
        for line in lines_of(file.path):
            copy.add(key, line)
    return copy

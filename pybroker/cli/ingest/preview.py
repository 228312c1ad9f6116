"""Checks a load's files without Spark, which takes seconds to start: whether they exist, are readable and of their
kind, and which columns they have.

The preview reads only local files, and reports only errors that are certain. Spark handles everything else.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import click

MAGIC = {"parquet": b"PAR1", "orc": b"ORC"}
FILES_MAX = 1_000
"""Files of a folder that are checked, at most."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
LINES_BYTES_MAX = 64 << 20
"""Bytes of all CSV files whose lines are checked, at most."""
SHOWN = 200
"""Characters of a malformed line in an error, at most."""
PLAIN_CSV = frozenset({"header", "sep", "delimiter", "mode", "inferschema"})
"""The options of Spark's CSV reader with which the preview reads a file as Spark would."""
_NAME = re.compile(r"[^\W\d][\w .-]*")


class Preview:
    """The files SRC of one kind. `options` are those of Spark's reader."""

    def __init__(self, src: str, kind: str, options: Mapping[str, str]) -> None:
        self._src, self._kind = src, kind
        self._options = {name.lower(): value for name, value in options.items()}

    def check(self, key: str | None, encoding: str) -> str | None:
        """Raise click.ClickException for files on which Spark would fail. Return a hint if a first line looks like
        column names."""
        if self._is_elsewhere():
            return None
        found = [Path(each) for each in glob.glob(self._src)]
        if not found:
            raise self._problem("no such file")
        files = list(islice(_files(found), FILES_MAX))
        for file in files:
            self._check_file(file)
        first = next((file for file in files if not file.name.endswith(COMPRESSED)), None)
        if first is None or any("=" in each.name for each in _folders(found)):
            return None  # Folders such as day=1 add columns, which the preview does not know.
        if self._kind == "csv" and self._options.keys() <= PLAIN_CSV:
            hint = self._check_csv(first, key, encoding)
            self._check_lines(first, files)
            return hint
        if self._kind == "text":
            check_columns(["value"], key, encoding)
        elif self._kind == "parquet":
            check_columns(_parquet_columns(first), key, encoding)
        return None

    def _is_elsewhere(self) -> bool:
        """Return whether Spark would read from another file system, or whether only Spark can expand the pattern."""
        return bool(re.match(r"[a-z0-9]+:", self._src) or set("{}") & set(self._src) or "HADOOP_CONF_DIR" in os.environ)

    def _problem(self, text: str) -> click.ClickException:
        return click.ClickException(f"{self._src} (--format {self._kind}): {text}")

    def _check_file(self, file: Path) -> None:
        try:
            with file.open("rb") as opened:
                head = opened.read(4)
        except OSError as error:
            raise self._problem(f"{file.name} cannot be read: {error.strerror}") from None
        magic = MAGIC.get(self._kind)
        if magic is not None and not head.startswith(magic):
            raise self._problem(f"{file.name} has a different format")

    def _check_csv(self, file: Path, key: str | None, encoding: str) -> str | None:
        separator = self._options.get("sep", self._options.get("delimiter", ","))
        header = self._options.get("header", "false").lower()
        if len(separator) != 1 or header not in ("true", "false"):
            return None
        try:
            with file.open(encoding="utf-8-sig", newline="") as text:
                rows = list(islice((row for row in csv.reader(text, delimiter=separator) if row), 2))
        except (UnicodeDecodeError, csv.Error):
            return None
        if not rows:
            return None
        names = header == "false" and _look_like_names(rows)
        columns = rows[0] if header == "true" else [f"_c{index}" for index in range(len(rows[0]))]
        hint = "; the first line looks like column names: use --header to read it as such" if names else ""
        check_columns(columns, key, encoding, hint)
        if not names:
            return None
        return (
            f"{file.name}: the first line looks like column names but is loaded as a row; use --header to read it as "
            "names"
        )

    def _check_lines(self, first: Path, files: Sequence[Path]) -> None:
        """Raise click.ClickException for a line whose number of cells differs from the first line. Otherwise Spark
        finds the error only when the topic already exists. Lines with quotes and backslashes, which can join cells, are
        left to Spark."""
        separator = self._options.get("sep", self._options.get("delimiter", ","))
        if len(separator) != 1 or self._options.get("mode", "FAILFAST").upper() != "FAILFAST":
            return
        expected, left = None, LINES_BYTES_MAX
        for file in (first, *(each for each in files if each != first)):
            if file.name.endswith(COMPRESSED):
                continue
            with file.open(encoding="utf-8-sig", errors="replace") as text:
                for number, line in enumerate(text, 1):
                    if not line.strip():
                        continue
                    left -= len(line)
                    is_plain = not set('"\\\0') & set(line)
                    if left < 0 or (expected is None and not is_plain):
                        return
                    cells = line.count(separator) + 1
                    expected = expected or cells
                    if is_plain and cells != expected:
                        raise self._problem(
                            f"{file.name}, line {number}: expected {expected} cells, found {cells}: "
                            f"{line.strip()[:SHOWN]} (to load the other lines, use --option mode=PERMISSIVE or "
                            "DROPMALFORMED)"
                        )


def check_columns(columns: Sequence[str], key: str | None, encoding: str, hint: str = "") -> None:
    """Raise click.ClickException if the columns do not fit --key and --value."""
    listed = ", ".join(columns)
    if key is not None and key not in columns:
        raise click.ClickException(f"--key {key}: no such column; columns: {listed}{hint}")
    if encoding == "raw" and len([each for each in columns if each != key]) != 1:
        raise click.ClickException(f"--value raw requires exactly one column besides the key; columns: {listed}{hint}")


def _look_like_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row looks like column names: its words are distinct, and the second row has a different
    kind of value in at least one column."""
    first, *others = rows
    if len(set(first)) < len(first) or not all(_NAME.fullmatch(cell) for cell in first):
        return False
    return any(not _NAME.fullmatch(cell) for row in others for cell in row)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that Spark would read: also files in folders, but no hidden files."""
    for path in paths:
        if path.is_dir():
            yield from _files([each for each in sorted(path.iterdir()) if each.name[:1] not in "._"])
        else:
            yield path


def _folders(paths: Sequence[Path]) -> Iterator[Path]:
    return (each for path in paths if path.is_dir() for each in path.rglob("*") if each.is_dir())


def _parquet_columns(file: Path) -> list[str]:
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_schema(file).names)
    except (OSError, pyarrow.ArrowException) as error:
        raise click.ClickException(f"{file} (--format parquet): {error}") from None

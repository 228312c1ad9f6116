"""The folder of an archive, in any file system that Spark can write: its plan while it is unfinished, its parts, its
files.

    DEST/part-….parquet                      files of finished parts, and of earlier archives
    DEST/_pybroker_archive/plan.json         the plan, until the archive is finished
    DEST/_pybroker_archive/3/                Spark's output of part 3
    DEST/_pybroker_archive/3.json            part 3 is complete: the list of its files, which move to DEST next

Spark and other readers of Parquet skip names that begin with _. A file is written under a temporary name and then
renamed, so a file under its final name is complete. The files of parts have distinct names, so moving them again has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pybroker.cli.archive.archive_plan import ArchivePart, ArchivePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORK = "_pybroker_archive"
PLAN = "plan.json"
T = TypeVar("T")


class Folder:
    """A folder that Spark can access, by path or URL. All methods raise Hadoop's errors."""

    def __init__(self, spark: SparkSession, dest: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = self._path(dest)
        self._files = self._root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._work = self._path(self._root, WORK)

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self._files.exists(self._root))

    def clear(self) -> None:
        """Remove the folder with its contents."""
        self._files.delete(self._root, True)

    # ---- the plan

    def plan(self) -> ArchivePlan | None:
        """Return the unfinished plan; None if there is none. Raises click.ClickException if the plan is damaged."""
        text = self._read(PLAN)
        if text is None:
            # An earlier run was interrupted while it removed the plan of a finished archive.
            self._files.delete(self._work, True)
            return None
        return self._parsed(ArchivePlan.from_json, PLAN, text)

    def begin(self, plan: ArchivePlan) -> None:
        """Create the folder with a plan."""
        self._write(PLAN, plan.to_json())

    def finish(self) -> None:
        """Mark the archive as finished, as Spark does, and remove everything but its files."""
        self._files.create(self._path(self._root, "_SUCCESS"), True).close()
        self._files.delete(self._path(self._work, PLAN), False)
        self._files.delete(self._work, True)

    # ---- its parts

    def staging(self, number: int) -> str:
        """Return the path for Spark's output of a part."""
        return str(self._path(self._work, str(number)).toString())

    def staged(self, number: int) -> tuple[str, ...]:
        """Return the files of Spark's output of a part."""
        listed = self._files.listStatus(self._path(self._work, str(number)))
        names = (str(each.getPath().getName()) for each in listed)
        return tuple(sorted(name for name in names if not name.startswith(("_", "."))))

    def part(self, number: int) -> ArchivePart | None:
        """If a part is complete, move its files to DEST and return it. Return None if it must be written.

        Raises click.ClickException if the part is damaged.
        """
        text = self._read(f"{number}.json")
        if text is None:
            return None
        part = self._parsed(ArchivePart.from_json, f"{number}.json", text)
        self._move(number, part)
        return part

    def add(self, number: int, part: ArchivePart) -> None:
        """Record that a part is complete."""
        self._write(f"{number}.json", part.to_json())
        self._move(number, part)

    def _move(self, number: int, part: ArchivePart) -> None:
        for name in part.files:
            written, wanted = self._path(self._work, f"{number}/{name}"), self._path(self._root, name)
            if self._files.exists(written) and not self._files.rename(written, wanted):
                raise click.ClickException(f"cannot move {written} to {wanted}")

    # ---- files

    def _path(self, *parts: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(*parts)

    def _read(self, name: str) -> str | None:
        path = self._path(self._work, name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _parsed(self, parse: Callable[[str], T], name: str, text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            damaged = self._path(self._work, name)
            raise click.ClickException(f"{damaged}: {error}; use --mode overwrite to start over") from None

    def _write(self, name: str, text: str) -> None:
        hidden, wanted = self._path(self._work, f".{name}"), self._path(self._work, name)
        stream = self._files.create(hidden, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if not self._files.rename(hidden, wanted):
            raise click.ClickException(f"cannot write {wanted}")

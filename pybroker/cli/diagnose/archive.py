"""The archive: a gzipped tar with one folder of texts and JSON documents. Its `README.txt` lists missing parts."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pybroker.broker.observability.diagnosis.diagnosis_report import cleaned


class Archive:
    """The archive. It is written from `__enter__` to `__exit__`, and only this user can read it. `clean` removes
    secrets from every text.

    Raises OSError if the file already exists or cannot be written. If the archive cannot be completed, it is removed.
    """

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        self.path = path
        self.clean = clean
        self.parts: dict[str, str] = {}
        """Name → description of the part."""
        self.missing: dict[str, str] = {}
        """Name of a missing part → reason."""
        self._folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")

    def __enter__(self) -> Self:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._stream = os.fdopen(fd, "wb")
        self._tar = tarfile.open(fileobj=self._stream, mode="w:gz")
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                self._add("README.txt", self._readme())
                self._tar.close()
        except OSError:
            kind = OSError
            raise
        finally:
            self._stream.close()
            if kind is not None:
                self.path.unlink(missing_ok=True)

    def text(self, name: str, what: str, text: str) -> None:
        """Add a text."""
        self.parts[name] = what
        self._add(name, self.clean(text))

    def document(self, name: str, what: str, value: Any) -> None:
        """Add a JSON document."""
        self.parts[name] = what
        self._add(name, json.dumps(cleaned(value, self.clean), indent=1, sort_keys=True, default=str) + "\n")

    def lacks(self, part: str, why: str) -> None:
        """Record that a part is missing."""
        self.missing[part] = self.clean(why)

    def _add(self, name: str, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        entry = tarfile.TarInfo(f"{self._folder}/{name}")
        entry.size = len(data)
        entry.mode = 0o600
        entry.mtime = int(time.time())
        self._tar.addfile(entry, io.BytesIO(data))

    def _readme(self) -> str:
        lines = [
            "Written by `pybroker diagnose` for a bug report. It contains no secrets and no records, but names of",
            "topics, groups, users, hosts and files. Review it before you share it.",
            "",
            *(f"{name:<28} {what}" for name, what in sorted(self.parts.items())),
        ]
        if self.missing:
            lines += ["", "Missing:", *(f"{part}: {why}" for part, why in self.missing.items())]
        return self.clean("\n".join(lines) + "\n")

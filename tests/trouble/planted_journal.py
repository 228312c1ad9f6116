"""Faults of the journal, as changes of its source. Each replaced line occurs only once there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STORAGE = Path("native/storage/src")
LIBRARY = "_native.abi3.so"


class Fault(NamedTuple):
    """A fault in one file: the line, and its replacement."""

    file: str
    replaced: dict[str, str]


FAULTS = {
    "what the journal holds is given back before its segments are synced": Fault(
        "flusher/journaling/segments.rs",
        {
            "let synced = self.sync_logs(&mut state, root, &logs);": (
                "let synced = logs.is_empty() || root.metadata().is_ok();"
            )
        },
    ),
    "batches of a later leader epoch are overwritten": Fault(
        "journal/replay.rs",
        {"if epoch_of(&there[..count]) > epoch_of(entry.bytes) {": "if epoch_of(&there[..count]) == i32::MAX {"},
    ),
    "a group counts whatever its checksum says": Fault(
        "journal/replay.rs",
        {
            "body.len() == group.header.body_bytes as usize && crc32c(&body) == group.body_crc": (
                "crc32c(&body) == group.body_crc || body.len() == group.header.body_bytes as usize"
            )
        },
    ),
    "what was voided counts": Fault(
        "journal/replay.rs",
        {".is_some_and(|since| group.header.sequence < *since)": ".is_some_and(|since| *since == 0)"},
    ),
    "groups before the last one may be torn": Fault(
        "journal/replay.rs", {"Some(_) if number == *needed.end() => {}": "Some(_) if number <= *needed.end() => {}"}
    ),
}
"""Fault → the tests beside the source that detect it."""

FLUSHED_BEFORE_IT_IS_WRITTEN = Fault(
    "journal/output.rs",
    {
        "        self.cached\n            .write_all_at(blocks, position)": (
            "        files::sync_data(&self.cached).map_err(|error| self.unsynced(error))?;\n"
            "        self.cached\n            .write_all_at(blocks, position)"
        ),
        "        files::sync_data(&self.cached).map_err(|error| self.unsynced(error))\n    }\n\n    /// Whatever": (
            "        Ok(())\n    }\n\n    /// Whatever"
        ),
        "direct: open_direct(&path),": "direct: open_direct(&path).filter(|_| false),",
    },
)
"""Faults that a power failure of the disk detects."""


class Source:
    """A copy of the native sources, in which faults are planted one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml"):
            shutil.copy(ROOT / name, folder)
        for name in ("native", "benches/limit"):
            shutil.copytree(ROOT / name, folder / name)

    def plant(self, fault: Fault) -> None:
        """Plant a fault in the original sources."""
        for path in (self.folder / STORAGE).rglob("*.rs"):
            sound = (ROOT / path.relative_to(self.folder)).read_text()
            if path.read_text() != sound:
                path.write_text(sound)
        path = self.folder / STORAGE / fault.file
        text = path.read_text()
        for sound, wrong in fault.replaced.items():
            assert text.count(sound) == 1, f"{fault.file} has no longer: {sound}"
            text = text.replace(sound, wrong)
        path.write_text(text)

    def cargo(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the test with the built artifacts."""
        command = ["cargo", *arguments, "--locked", "--target-dir", str(self.folder / "target")]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def install(self, folder: Path) -> None:
        """Build the package from these sources, and install it there."""
        built = self.cargo("build", "--release", "-q", "-p", "pybroker-bindings")
        assert built.returncode == 0, built.stderr[-3000:]
        shutil.copytree(ROOT / "pybroker", folder / "pybroker", ignore=shutil.ignore_patterns(LIBRARY))
        library = next((self.folder / "target/release").glob("lib_native.*"))
        shutil.copy(library, folder / "pybroker" / LIBRARY)

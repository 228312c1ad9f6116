"""Small file systems for one test, which can be filled, broken and cut off. Mounting requires root on Linux: tests call
`can_mount`, and use another mechanism if it returns False."""

from __future__ import annotations

import fcntl
import functools
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path

# linux/fs.h: _IOR('X', 125, __u32). The flag says what is still written before every call fails with EIO.
_FS_IOC_SHUTDOWN = 0x8004587D
_NOTHING_MORE = 2
# linux/fs.h: _IOWR('X', 119 and 120, int). Writes to a frozen file system wait until it is thawed.
_FIFREEZE = 0xC0045877
_FITHAW = 0xC0045878
_UNMOUNT_PATIENCE_S = 120.0


class LoopDisk:
    """An ext4 file system in an image file. `path`: where it is mounted."""

    def __init__(self, folder: Path, mib: int, images: Path | None = None) -> None:
        folder.mkdir(parents=True)
        self.path = folder / "mounted"
        self.path.mkdir()
        # Use memory if possible: a test of power failures calls fsync often.
        memory = Path("/dev/shm")
        where = images or (memory if os.access(memory, os.W_OK) else folder)
        handle, name = tempfile.mkstemp(suffix=".ext4", dir=where)
        os.close(handle)
        self._image = Path(name)
        try:
            os.truncate(self._image, mib << 20)
            _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
            self.mount()
        except BaseException:
            self._image.unlink()
            raise

    def mount(self) -> None:
        """Mount the file system; after `cut`, it has the state that a reboot would find."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount the file system when no process uses it any more."""
        give_up = time.monotonic() + _UNMOUNT_PATIENCE_S
        while True:
            try:
                return _run("umount", str(self.path))
            except RuntimeError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def fill(self) -> None:
        """Fill the remaining space."""
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            size = 1 << 20
            while size:
                try:
                    ballast.write(bytes(size))
                except OSError:
                    size //= 2
            # Blocks are only reserved until they are written.
            os.fsync(ballast.fileno())

    def free(self) -> None:
        """Free the space that `fill` has taken."""
        (self.path / "ballast").unlink()

    def cut(self) -> None:
        """Simulate a power failure: data that was not synced is lost, and every later call fails."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _FS_IOC_SHUTDOWN, struct.pack("I", _NOTHING_MORE))
        finally:
            os.close(descriptor)

    def reboot(self) -> None:
        """Mount the file system again after `cut`. The broker must have ended."""
        self.unmount()
        self.mount()

    def close(self) -> None:
        """Remove the file system, even if processes still use it."""
        subprocess.run(["umount", "-l", str(self.path)], capture_output=True, check=False)
        self._image.unlink(missing_ok=True)


class StallingDisk(LoopDisk):
    """A disk that can stop responding: its image is on another disk, which is frozen. Writes into the page cache
    succeed for a while; fsync waits."""

    def __init__(self, folder: Path, mib: int) -> None:
        self._under = LoopDisk(folder / "under", mib * 2)
        try:
            super().__init__(folder / "disk", mib, images=self._under.path)
        except BaseException:
            self._under.close()
            raise
        self._stalled = False

    def stall(self) -> None:
        """Stop writing to the disk; its users get no error."""
        self._ask(_FIFREEZE)
        self._stalled = True

    def go_on(self) -> None:
        """Write to the disk again."""
        if self._stalled:
            self._ask(_FITHAW)
            self._stalled = False

    def _ask(self, request: int) -> None:
        descriptor = os.open(self._under.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, request, 0)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.go_on()
        super().close()
        self._under.close()


@functools.cache
def can_mount() -> bool:
    """Return whether this process may mount and cut off an ext4 image. Tried only once."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            disk = LoopDisk(Path(folder) / "probe", 8)
            try:
                disk.cut()
            finally:
                disk.close()
    except (OSError, RuntimeError):
        return False
    return True


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

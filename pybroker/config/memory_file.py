"""Files for libraries that read keys and certificates only from files."""

from __future__ import annotations

import os


class MemoryFile:
    """Content under a path that only this user can read. It is in memory if the system supports this, otherwise on
    disk. The file exists until `close` or the end of this process. Raises OSError if it cannot be created.
    """

    def __init__(self, content: bytes) -> None:
        self._on_disk = not hasattr(os, "memfd_create")
        if self._on_disk:
            import tempfile

            self._descriptor, self.path = tempfile.mkstemp(prefix="pybroker-")
        else:
            self._descriptor = os.memfd_create("pybroker", os.MFD_CLOEXEC)
            self.path = f"/proc/self/fd/{self._descriptor}"
        try:
            with open(self._descriptor, "wb", closefd=False) as stream:
                stream.write(content)
        except OSError:
            self.close()
            raise

    def replace(self, content: bytes) -> None:
        """Replace the content under the same path, atomically: a reader gets the old or the new content as a whole.
        Raises OSError.
        """
        fresh = MemoryFile(content)
        if self._on_disk:
            os.replace(fresh.path, self.path)
            os.close(self._descriptor)
            self._descriptor = fresh._descriptor
        else:
            os.dup2(fresh._descriptor, self._descriptor, inheritable=False)
            os.close(fresh._descriptor)

    def close(self) -> None:
        """Remove the file; the path becomes invalid."""
        os.close(self._descriptor)
        if self._on_disk:
            os.unlink(self.path)

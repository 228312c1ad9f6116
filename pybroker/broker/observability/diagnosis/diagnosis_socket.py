"""`diagnose.sock` in the first data directory: each connection gets one report, and then the broker closes it.

The socket is a file that only the broker's user may open, not a network address: a report shows names, addresses and
log lines. A separate thread serves it, so a report also comes while the loop hangs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.broker.observability.diagnosis.diagnosis_report import Subject

log = logging.getLogger(__name__)

FILE_NAME = "diagnose.sock"
SEND_S_MAX = 30.0
ANSWER_S_MAX = 90.0
REPORT_BYTES_MAX = 1 << 30


class DiagnosisSocket:
    """Listens from `start` to `stop`."""

    def __init__(self, directory: Path, subject: Callable[[], Subject]) -> None:
        """The socket's thread calls `subject` for each connection to get the sources of a report."""
        self._directory = directory
        self._subject = subject
        self._listening: socket.socket | None = None

    def start(self) -> None:
        """Listen, unless the socket is already listening or the directory does not exist yet. If listening fails, the
        broker runs without the socket, and one log line contains the reason.
        """
        if self._listening is not None or not self._directory.is_dir() or not hasattr(socket, "AF_UNIX"):
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(self._directory) as path:
                if _served(path):  # Another running broker uses this directory, so this broker will fail to start.
                    listening.close()
                    return
                # Rename the socket to its final name only when it accepts connections and only its owner may open it.
                before = f"{path}.new"
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(before)
                listening.bind(before)
                os.chmod(before, 0o600)
                listening.listen(1)
                os.rename(before, path)
        except OSError as problem:
            listening.close()
            log.warning(
                "cannot create the socket for `pybroker diagnose` path=%s: %s", self._directory / FILE_NAME, problem
            )
            return
        self._listening = listening
        threading.Thread(target=self._serve, args=(listening,), name="diagnose", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread and remove the file."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._directory / FILE_NAME)
        with contextlib.suppress(OSError):  # On macOS, a listening socket is not connected.
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(SEND_S_MAX)
                    connection.sendall(self._report())
                except OSError as problem:
                    log.debug("the client of a diagnosis report disconnected: %s", problem)

    def _report(self) -> bytes:
        # Import on first use: most brokers never write a report.
        import json

        from pybroker.broker.observability.diagnosis.diagnosis_report import report

        try:
            document = report(self._subject())
        except Exception:
            log.exception("cannot make the report for `pybroker diagnose`: this is a bug in pybroker")
            document = {"problems": {"report": "the report failed; see the broker's log"}}
        return json.dumps(document).encode()


def ask(directory: Path) -> dict[str, Any] | None:
    """Return the report of the broker that runs on a data directory; None if no broker listens there.

    Raises OSError if the broker does not answer, sends no valid report, or refuses this user.
    """
    import json

    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as asking:
        asking.settimeout(ANSWER_S_MAX)
        try:
            with _short(directory) as path:
                asking.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        received = bytearray()
        while chunk := asking.recv(1 << 20):
            received += chunk
            if len(received) > REPORT_BYTES_MAX:
                raise OSError(f"{directory / FILE_NAME}: the report has more than {REPORT_BYTES_MAX} bytes")
    try:
        document = json.loads(received)
    except ValueError as problem:
        raise OSError(f"{directory / FILE_NAME}: received no report but {len(received)} bytes: {problem}") from None
    if not isinstance(document, dict):
        raise OSError(f"{directory / FILE_NAME}: received no report")
    return document


@contextlib.contextmanager
def _short(directory: Path) -> Iterator[str]:
    """Yield a path of the socket that fits into a socket address (108 bytes on Linux), even if the directory's path is
    longer."""
    path = directory / FILE_NAME
    if len(os.fsencode(path)) < 100 or not Path("/proc/self/fd").is_dir():
        yield str(path)
        return
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{FILE_NAME}"
    finally:
        os.close(fd)


def _served(path: str) -> bool:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as tried:
        try:
            tried.connect(path)
        except OSError:
            return False
        return True

"""What the process tells systemd (`Type=notify`): that it serves, that it stops. Without `NOTIFY_SOCKET`, nothing."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send one state, such as `READY=1`, as sd_notify(3) does. A service manager that does not listen is no failure of
    the broker.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            # An at sign stands for a name in the abstract namespace.
            connection.connect(address if address[0] == "/" else f"\0{address[1:]}")
            connection.send(state.encode())
    except OSError as problem:
        log.warning("systemd was not told %s: NOTIFY_SOCKET=%s: %s", state, address, problem.strerror or problem)

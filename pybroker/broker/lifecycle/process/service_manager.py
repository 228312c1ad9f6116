"""Notifies systemd (`Type=notify`) when the broker is ready and when it stops. Does nothing without `NOTIFY_SOCKET`."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send one state, such as `READY=1`, as sd_notify(3) does. Ignore a service manager that does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            # An at sign marks a name in the abstract namespace.
            connection.connect(address if address[0] == "/" else f"\0{address[1:]}")
            connection.send(state.encode())
    except OSError as problem:
        log.warning("cannot notify systemd state=%s NOTIFY_SOCKET=%s: %s", state, address, problem.strerror or problem)

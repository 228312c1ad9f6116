"""The console's process."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import uvicorn

from pybroker.client import ClientConfigError
from pybroker.console.console_settings import ConsoleSettings
from pybroker.console.routes import make_app
from pybroker.console.web.idle_connections import CONNECTIONS_MAX, WAITING_MAX, BoundedProtocol, RateFilter


def serve(settings: ConsoleSettings, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ready: called with the URL when the console listens. Raises ClientConfigError, or
    OSError if the address cannot be used."""
    servers: list[uvicorn.Server] = []
    app = make_app(settings, lambda: bool(servers) and servers[0].should_exit)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        raise ClientConfigError(f"--listen {settings.host}:{settings.port}: {error.strerror or error}") from None
    listening.listen(128)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "http" if settings.certificate is None else "https"
    ready(f"{scheme}://{host}:{listening.getsockname()[1]}/")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=BoundedProtocol,
        # Connections without a complete request have a separate limit, and must not count towards this limit.
        limit_concurrency=CONNECTIONS_MAX + WAITING_MAX,
        timeout_graceful_shutdown=2,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
    logging.getLogger("uvicorn.error").addFilter(RateFilter())
    servers.append(uvicorn.Server(config))
    servers[0].run(sockets=[listening])

"""Checks before each page, and security headers in each response."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 2 << 20
"""Size limit of a form in bytes. The largest form is that for writing a record."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestGuard:
    """Refuses unknown host names, requests from other sites and large bodies; adds security headers. Without the host
    check, another site could reach a console without login by a host name that resolves to a loopback address (DNS
    rebinding)."""

    def __init__(self, app: ASGIApp, host_names: tuple[str, ...]) -> None:
        self._app = app
        self._names = {name.lower() for name in host_names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope)
        if refusal is not None:
            await PlainTextResponse(refusal[1] + "\n", refusal[0])(scope, receive, with_headers)
            return
        # It is not an error if a client disconnects before the end of a form.
        with contextlib.suppress(ClientDisconnect):
            await self._app(scope, _limited(receive), with_headers)

    def _refusal(self, headers: Headers, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if _has_port(host) else host
        if not self._is_known(name.removeprefix("[").removesuffix("]")):
            return 421, f"This console does not serve the host name {name or '(none)'}; add it with --host-name."
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site", "same-origin") not in (
            "same-origin",
            "none",
        ):
            return 403, "The request to change something comes from another site and was rejected."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            return 413, f"The request is larger than {BODY_BYTES_MAX} bytes."
        return None

    def _is_known(self, name: str) -> bool:
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and not host.endswith("]") and (host.count(":") == 1 or "]" in host)


class BodyTooLargeError(Exception):
    """The body exceeds BODY_BYTES_MAX."""


def _limited(receive: Receive) -> Receive:
    """Limit the number of received bytes, because a body may have no Content-Length."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                raise BodyTooLargeError
        return message

    return counted

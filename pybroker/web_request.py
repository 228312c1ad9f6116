"""One HTTP or HTTPS request to a URL from the settings: no redirects, no other schemes, limited size and time. Blocks,
so it must not run on a loop's thread."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

ANSWER_BYTES_MAX = 1 << 20

_PIECE_BYTES = 1 << 16


class WebError(Exception):
    """The request failed. The text gives the reason, without any data that was sent or received."""

    def __init__(self, message: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; None without a response."""
        self.body = body
        """The body of a response with an error status."""


def ask(
    url: str,
    headers: Mapping[str, str],
    *,
    body: bytes | None = None,
    seconds: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """Return the body of a successful response to GET or, with `body`, to POST. `tls` has the trusted certificates;
    None uses the system's. Raises WebError."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=tls or ssl.create_default_context()),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    end = time.monotonic() + seconds
    try:
        request = urllib.request.Request(url, body, dict(headers))
        with opener.open(request, timeout=seconds) as answer:
            return _read(answer, end)
    except urllib.error.HTTPError as problem:
        with problem:
            raise WebError(f"the response has status {problem.code}", problem.code, _read(problem, end)) from None
    except urllib.error.URLError as problem:
        raise WebError(str(problem.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise WebError(str(problem) or type(problem).__name__) from None


def _read(answer: http.client.HTTPResponse | urllib.error.HTTPError, end: float) -> bytes:
    content = b""
    while piece := answer.read1(_PIECE_BYTES):
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            raise WebError(f"the response is longer than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > end:
            raise WebError("the response takes too long")
    return content

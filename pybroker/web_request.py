"""One request by HTTP or HTTPS to where settings point, and to nowhere else: no redirects, no other schemes, an
answer of bounded length in bounded time. Blocks: not for a loop's thread."""

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
    """No answer that can be used. The text says why, with nothing of what was sent or received."""

    def __init__(self, message: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; None: nothing was answered."""
        self.body = body
        """What came with a status that is an error."""


def ask(
    url: str,
    headers: Mapping[str, str],
    *,
    body: bytes | None = None,
    seconds: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """The body of an answer with a good status, to GET or, with `body`, to POST. `tls`: whom to trust; None: whom the
    system trusts. Raises WebError."""
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
            raise WebError(f"it answers with status {problem.code}", problem.code, _read(problem, end)) from None
    except urllib.error.URLError as problem:
        raise WebError(str(problem.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise WebError(str(problem) or type(problem).__name__) from None


def _read(answer: http.client.HTTPResponse | urllib.error.HTTPError, end: float) -> bytes:
    content = b""
    while piece := answer.read1(_PIECE_BYTES):
        content += piece
        if len(content) > ANSWER_BYTES_MAX:
            raise WebError(f"its answer is longer than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > end:
            raise WebError("its answer takes too long")
    return content

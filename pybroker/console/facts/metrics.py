"""A broker's /metrics: the few lines that charts need, of Prometheus' text format."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Mapping

BYTES_MAX = 16 << 20
TIMEOUT_S = 5.0
_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Sample = Mapping[str, float]
"""Title of a chart → a counter that only grows."""


class ScrapeError(Exception):
    """The metrics cannot be had; the text says why."""


async def scrape(url: str) -> Sample:
    """Counters of requests and errors, summed up by what people look at. Raises ScrapeError."""
    return counters(await asyncio.to_thread(_fetch, url))


def _fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(BYTES_MAX + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ScrapeError(f"{url}: {error}") from None
    if len(data) > BYTES_MAX:
        raise ScrapeError(f"{url}: more than {BYTES_MAX >> 20} MiB")
    return data.decode("utf-8", "replace")


def counters(text: str) -> Sample:
    """Requests and errors of each kind, bytes in and out."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        title = _title(match["name"].lower(), dict(_LABEL.findall(match["labels"] or "")))
        if title is not None and value >= 0:
            found[title] = found.get(title, 0.0) + value
    return found


def _title(name: str, labels: Mapping[str, str]) -> str | None:
    request = labels.get("request") or labels.get("api") or labels.get("api_key") or labels.get("key")
    if "topic" in labels or not name.endswith(("_total", "_count")):
        return None
    if "errors" in name:
        code = labels.get("error") or labels.get("code")
        return None if code in ("NONE", "0") else f"Errors {code or request or ''}".strip()
    if "requests" in name or "requestmetrics_totaltime" in name:
        return f"{request} requests" if request else "Requests"
    if "bytesin" in name or "bytes_in" in name:
        return "Bytes in"
    if "bytesout" in name or "bytes_out" in name:
        return "Bytes out"
    return None

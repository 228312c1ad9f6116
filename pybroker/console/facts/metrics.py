"""Brokers' /metrics: the few lines that charts need, of Prometheus' text format."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

BYTES_MAX = 16 << 20
TIMEOUT_S = 5.0
_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_BYTES = {
    "kafka_server_brokertopicmetrics_bytesin_total": "Bytes in",
    "kafka_server_brokertopicmetrics_bytesout_total": "Bytes out",
}

Sample = Mapping[str, float]
"""Title of a chart → a counter that only grows."""


class ScrapeError(Exception):
    """The metrics cannot be had; the text says why."""


class Scraped:
    """What several brokers have counted since the first look, together. A broker that is away has no part in it; when
    it is back it counts on from there, whether it was restarted or not: its own numbers never show as a leap.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._before: dict[str, Sample] = {}
        self._counted: dict[str, float] = {}
        self.missing: list[str] = []
        """Which brokers could not be asked at the last look, and why."""

    async def sample(self) -> Sample:
        """Asks all of them. Raises ScrapeError if none answers."""
        answers = await asyncio.gather(*map(scrape, self._urls), return_exceptions=True)
        self.missing = []
        for url, answer in zip(self._urls, answers, strict=True):
            before = self._before.pop(url, None)
            if isinstance(answer, ScrapeError):
                self.missing.append(str(answer))
                continue
            if isinstance(answer, BaseException):
                raise answer
            self._before[url] = answer
            for title, value in answer.items():
                since = value if before is None else before.get(title, 0.0)
                # A restart lets counters begin anew.
                more = value - since if value >= since else value
                self._counted[title] = self._counted.get(title, 0.0) + more
        if len(self.missing) == len(self._urls):
            raise ScrapeError("; ".join(self.missing))
        return dict(self._counted)


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
    """Kafka's JMX exporter and pybroker have the same names; what has a topic is in another line's sum as well."""
    if "topic" in labels:
        return None
    if name == "kafka_network_requestmetrics_requests_total":
        return f"{labels['request']} requests" if labels.get("request") else "Requests"
    if name == "kafka_network_requestmetrics_errors_total":
        code = labels.get("error", "")
        return None if code == "NONE" else f"Errors {code or labels.get('request', '')}".strip()
    return _BYTES.get(name)

"""Scrapes the brokers' /metrics. Only those lines of the Prometheus text are read that the charts need."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from pybroker.console.queries.measurements import Measurement

BYTES_MAX = 16 << 20
TIMEOUT_S = 5.0
_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_COUNTERS = {
    "kafka_server_brokertopicmetrics_messagesin_total": "records in",
    "kafka_server_brokertopicmetrics_bytesin_total": "bytes in",
    "kafka_server_brokertopicmetrics_bytesout_total": "bytes out",
    "process_cpu_seconds_total": "cpu",
}
_GAUGES = {"process_resident_memory_bytes": "memory"}
_BY_KIND = {
    "kafka_network_requestmetrics_requests_total": ("requests", "request"),
    "kafka_network_requestmetrics_errors_total": ("errors", "error"),
}

Sample = Mapping[str, float]
"""Counter values by name or by "name: kind"."""


class ScrapeError(Exception):
    """The metrics are unavailable; the text says why."""


class ScrapedMetrics:
    """Sums over several brokers since the first scrape. An unreachable broker adds nothing. When it is back, its
    counters continue from its last sum, even if it was restarted, so that a chart never shows a jump."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls
        self._before: dict[str, Sample] = {}
        self._counted: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.missing: list[str] = []
        """Brokers that the last scrape could not reach, with the reason."""

    async def sample(self) -> Sample:
        """Scrape all brokers. Raises ScrapeError if none answers."""
        answers = await asyncio.gather(*map(scrape, self.urls), return_exceptions=True)
        self.missing, self.gauges = [], {}
        for url, answer in zip(self.urls, answers, strict=True):
            before = self._before.pop(url, None)
            if isinstance(answer, ScrapeError):
                self.missing.append(str(answer))
                continue
            if isinstance(answer, BaseException):
                raise answer
            sample, gauges = answer
            self._before[url] = sample
            for name, value in gauges.items():
                self.gauges[name] = self.gauges.get(name, 0.0) + value
            for title, value in sample.items():
                since = value if before is None else before.get(title, 0.0)
                # A restart resets the counters.
                more = value - since if value >= since else value
                self._counted[title] = self._counted.get(title, 0.0) + more
        if len(self.missing) == len(self.urls):
            raise ScrapeError("; ".join(self.missing))
        return dict(self._counted)

    async def measurement(self) -> Measurement:
        """Return the counters, the gauges and the missing brokers. Raises ScrapeError."""
        counters = await self.sample()
        # Raise an error if a broker is missing, because the sums would be too small.
        gauges = {} if self.missing else dict(self.gauges)
        return Measurement(counters, gauges, problems=tuple(self.missing))


async def scrape(url: str) -> tuple[Sample, Sample]:
    """Return counters and gauges of one broker. Raises ScrapeError."""
    return parse_metrics(await asyncio.to_thread(_fetch, url))


def _fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(BYTES_MAX + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ScrapeError(f"{url}: {error}") from None
    if len(data) > BYTES_MAX:
        raise ScrapeError(f"{url}: more than {BYTES_MAX >> 20} MiB")
    return data.decode("utf-8", "replace")


def parse_metrics(text: str) -> tuple[Sample, Sample]:
    """Return counters and gauges. Kafka's JMX exporter and pybroker use the same names."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        name, labels = match["name"].lower(), dict(_LABEL.findall(match["labels"] or ""))
        # Another line has the total, which already includes the values of single topics.
        if "topic" in labels or value < 0:
            continue
        if name in _GAUGES:
            gauges[_GAUGES[name]] = gauges.get(_GAUGES[name], 0.0) + value
        if labels.get("error") == "NONE":
            value = 0.0  # If there is a line for requests without an error, the broker counts errors.
        for title in _titles(name, labels):
            counters[title] = counters.get(title, 0.0) + value
    return counters, gauges


def _titles(name: str, labels: Mapping[str, str]) -> list[str]:
    if name in _BY_KIND:
        title, label = _BY_KIND[name]
        kind = labels.get(label, "")
        return [title, f"{title}: {kind}"] if kind else [title]
    return [_COUNTERS[name]] if name in _COUNTERS else []

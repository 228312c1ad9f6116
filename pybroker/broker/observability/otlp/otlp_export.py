"""The export's thread: sends metrics at each interval, slow requests once a second, and client metrics as they arrive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from pybroker.broker.observability.otlp import otlp_messages
from pybroker.broker.observability.otlp.otlp_sender import METRICS, TRACES, OtlpSender
from pybroker.broker.services import Services
from pybroker.config import BrokerConfig
from pybroker.config.broker_otlp import ENDPOINT, HEADERS, RESOURCE, pairs
from pybroker.native import MetricFamilies, SlowRequest
from pybroker.version import version

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Seconds between checks for slow requests and client metrics."""
COLLECT_S = 30.0
PUSHED_BYTES_MAX = 16 << 20
"""Size limit in bytes of client metrics that wait to be sent. Above it, the oldest are dropped."""
STOP_S = 5.0


class Source(NamedTuple):
    """The sources of exported data."""

    loop: asyncio.AbstractEventLoop
    metrics: Callable[[], Coroutine[Any, Any, MetricFamilies]]
    """Function that collects the metrics; called on the loop."""
    slow: Callable[[], Sequence[SlowRequest]]
    """Function that returns the slow requests since its last call; called on the export's thread."""


class Export:
    """The export; it runs from `start` to `stop`."""

    def __init__(
        self, source: Source, sender: OtlpSender, resource: Mapping[str, object], interval_s: Callable[[], float]
    ) -> None:
        self._source = source
        self._sender = sender
        self._resource = dict(resource)
        self._interval_s = interval_s
        self._start_ns = time.time_ns()
        self._stopping = threading.Event()
        self._pushed: deque[tuple[bytes, Mapping[str, str]]] = deque()
        self._pushed_bytes = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        """Start exporting. Slow requests are exported from this moment on."""
        self._source.slow()
        self._thread.start()

    def stop(self) -> None:
        """Send the remaining data within STOP_S. *Blocking*; must not run on the loop's thread, which collects the
        metrics."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def pushed(self, data: bytes, client: Mapping[str, str]) -> None:
        """Queue metrics that a client has pushed: OTLP's MetricsData."""
        with self._lock:
            self._pushed.append((data, client))
            self._pushed_bytes += len(data)
            while self._pushed_bytes > PUSHED_BYTES_MAX:
                self._pushed_bytes -= len(self._pushed.popleft()[0])
                self._sender.lost += 1

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s()
        while not self._stopping.wait(min(LOOK_S, max(due - time.monotonic(), 0.0))):
            self._send(metrics=time.monotonic() >= due)
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval_s()
        self._send(metrics=True)
        self._sender.close()

    def _send(self, *, metrics: bool) -> None:
        try:
            self._send_slow()
            self._send_pushed()
            if metrics:
                self._send_metrics()
        except Exception:
            log.exception("cannot export metrics to otlp.endpoint: this is a bug in pybroker")

    def _send_slow(self) -> None:
        slow = self._source.slow()
        if slow:
            self._sender.send(TRACES, otlp_messages.traces(slow, self._resource).SerializeToString())

    def _send_pushed(self) -> None:
        with self._lock:
            pushed, self._pushed = self._pushed, deque()
            self._pushed_bytes = 0
        for data, client in pushed:
            try:
                message = otlp_messages.of_client(data, client)
            except DecodeError as problem:
                log.warning("cannot forward the metrics of a client client=%s: %s", client, problem)
                continue
            self._sender.send(METRICS, message.SerializeToString())

    def _send_metrics(self) -> None:
        asked = asyncio.run_coroutine_threadsafe(self._source.metrics(), self._source.loop)
        try:
            families = asked.result(COLLECT_S)
        except (TimeoutError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            log.warning(
                "cannot collect metrics for otlp.endpoint: the event loop has not answered within %.0f s", COLLECT_S
            )
            return
        for message in otlp_messages.metrics(families.take(), self._resource, self._start_ns, time.time_ns()):
            self._sender.send(METRICS, message.SerializeToString())


def export(config: BrokerConfig, source: Source, services: Services) -> Export:
    """Return the export, not started."""
    sender = OtlpSender(
        config.get_str(ENDPOINT), pairs(config[HEADERS] or ""), config.get_int("otlp.timeout.ms") / 1000
    )
    resource = {
        "service.name": "pybroker",
        "service.version": version(),
        "service.instance.id": str(services.broker_id),
        "pybroker.cluster.id": services.cluster_id,
        **pairs(config.get_str(RESOURCE)),
    }
    made = Export(source, sender, resource, lambda: config.get_int("otlp.interval.ms") / 1000)
    if config["otlp.client.metrics.enable"]:
        services.telemetry.pass_on = made.pushed
    return made

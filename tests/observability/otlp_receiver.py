"""An OpenTelemetry collector for one test: it receives OTLP over HTTP and stores it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """Listens within `with`. `statuses`: the status codes of the next responses, before 200."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self._metrics: list[ResourceMetrics] = []
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.take(self.path, dict(self.headers), gzip.decompress(body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.headers.append(headers)
            if self.statuses:
                return self.statuses.pop(0)
            if path == "/v1/metrics":
                self._metrics += ExportMetricsServiceRequest.FromString(body).resource_metrics
            elif path == "/v1/traces":
                found = ExportTraceServiceRequest.FromString(body)
                self._spans += [span for one in found.resource_spans for each in one.scope_spans for span in each.spans]
            else:
                return 404
            return 200

    def resources(self) -> list[tuple[dict[str, str], list[Metric]]]:
        """Return the attributes of each resource and its metrics, in the order of arrival."""
        with self._lock:
            return [
                (
                    {one.key: one.value.string_value for one in each.resource.attributes},
                    [metric for scope in each.scope_metrics for metric in scope.metrics],
                )
                for each in self._metrics
            ]

    def metrics(self) -> dict[str, Metric]:
        """Return the last metric of each name, of brokers."""
        return {
            metric.name: metric
            for attributes, found in self.resources()
            if attributes.get("service.name") == "pybroker"
            for metric in found
        }

    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

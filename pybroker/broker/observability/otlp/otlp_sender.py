"""Sends messages to the collector. If the collector is down, the sender drops and counts the messages, and logs a
warning now and then. The broker never waits for the collector.
"""

from __future__ import annotations

import gzip
import logging
import time
from collections.abc import Mapping

import requests
import urllib3

log = logging.getLogger(__name__)

ATTEMPTS = 3
AGAIN = (429, 502, 503, 504)
"""Retryable status codes in OTLP's specification."""
TELL_S = 60.0

METRICS, TRACES = "/v1/metrics", "/v1/traces"


class OtlpSender:
    """Sends messages over HTTP. Used by one thread at a time."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout_s: float) -> None:
        """`endpoint` is the part of the URL before /v1/metrics and /v1/traces."""
        self._endpoint = endpoint.rstrip("/")
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.headers.update({**headers, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
        # Limit the wait even if Retry-After is longer: after this time, newer data is available.
        again = urllib3.Retry(
            ATTEMPTS - 1,
            backoff_factor=0.5,
            status_forcelist=AGAIN,
            allowed_methods=None,
            respect_retry_after_header=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=again))
        self._logged_at: float | None = None
        self.sent = 0
        self.lost = 0

    def send(self, path: str, data: bytes) -> None:
        """Send one message."""
        try:
            answer = self._session.post(
                self._endpoint + path, gzip.compress(data, 1), timeout=self._timeout_s, allow_redirects=False
            )
            problem = "" if answer.ok else f"HTTP status {answer.status_code}"
        except requests.RequestException as error:
            problem = str(error)
        if not problem:
            self.sent += 1
            return
        self.lost += 1
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= TELL_S:
            self._logged_at = now
            log.warning(
                "cannot export metrics otlp.endpoint=%s error=%s lost_messages=%d", self._endpoint, problem, self.lost
            )

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

"""Client instances, which get telemetry subscriptions and push metrics (KIP-714). This module accepts or refuses their
requests and keeps the sums of their metrics. As in Kafka's ClientMetricsManager, the data is only in memory.

A client instance expires after three push intervals without a request. Above the limit, the instance that was silent
for longest is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from math import isfinite

from pybroker.broker.client_metrics.metrics_subscriptions import (
    InstanceSubscription,
    MetricsSubscription,
    asked_of,
    described,
)
from pybroker.broker.client_metrics.otlp_reader import MalformedError, Number, numbers
from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.requests.context import RequestContext
from pybroker.config import BrokerConfig, ConfigError
from pybroker.config.client_metrics_defs import ALL_METRICS
from pybroker.errors import KafkaError
from pybroker.native import Uuid, unpacked
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

INSTANCES_MAX = 16_384
"""Kafka's limit of client instances in memory."""

SILENT_INTERVALS = 3

UNPACKED_BYTES_MAX = 4 << 20
"""Limit of the uncompressed size of a push, in bytes. If telemetry.max.bytes is larger, it applies instead."""

UNPACKED_BYTES_FREE, UNPACKED_BYTES_PER_BYTE = 64 << 10, 128
FIELDS_FREE, FIELDS_PER_BYTE = 1_000, 16
"""Limit of the number of protobuf fields: a fixed number, and a number per byte of the push. Compression reduces client
metrics to a tenth of their size, but a decompression bomb to a ten-thousandth.
"""

NAMES_MAX = 500
"""Limit of metric names in /metrics; a client library has about a hundred."""

COMPRESSION_TYPES = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: codes of record batches, in order of preference. Uncompressed pushes are always accepted."""

UNCOMPRESSED = 0


class _Instance:
    __slots__ = ("asked", "got_ms", "may_ask", "of", "pushed_ms", "seen_ms", "terminating")

    def __init__(self, asked: InstanceSubscription, of: object, now_ms: int) -> None:
        self.asked = asked
        self.of = of
        self.seen_ms = now_ms
        self.got_ms: int | None = None
        self.pushed_ms: int | None = None
        self.may_ask = False
        self.terminating = False

    def may_get(self, now_ms: int) -> bool:
        """Return whether the client may request its subscription now. It may once per push interval, and also after an
        error that requires a new subscription.
        """
        last = max(self.got_ms or 0, self.pushed_ms or 0) if self.got_ms or self.pushed_ms else None
        return self.may_ask or last is None or now_ms - last >= self.asked.interval_ms

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push now. It may once per push interval, and one more time after each
        subscription response, because clients choose a random time for their first push.
        """
        if self.pushed_ms is None or (self.got_ms is not None and self.got_ms > self.pushed_ms):
            return True
        return now_ms - self.pushed_ms >= self.asked.interval_ms


def read(codec: int, data: bytes, bytes_max: int) -> tuple[bytes, list[Number]]:
    """Return the uncompressed push and the metric values in it. Raises ValueError if the push cannot be decompressed,
    MalformedError if its bytes are not MetricsData.
    """
    size = len(data)
    plain = unpacked(codec, data, min(bytes_max, UNPACKED_BYTES_FREE + UNPACKED_BYTES_PER_BYTE * size))
    return plain, numbers(plain, FIELDS_FREE + FIELDS_PER_BYTE * size)


class Telemetry:
    """Handles the telemetry requests and keeps the sums of pushed metrics. Runs on the loop's thread."""

    def __init__(self, view: ClusterView, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._config = config
        self._clock = clock
        self._of: object = None
        self._subscriptions: list[MetricsSubscription] = []
        self._instances: OrderedDict[Uuid, _Instance] = OrderedDict()
        self._reading = asyncio.Lock()
        self.pushes = 0
        self.push_bytes = 0
        self.refused: Counter[ErrorCode] = Counter()
        self.unshown = 0
        """Number of pushed metrics that this broker has not kept, because NAMES_MAX is reached or no subscription
        requests them.
        """
        self.sums: dict[str, float] = {}
        """Counters, summed over all clients since the start."""
        self.gauges: dict[str, float] = {}
        """Gauges, with the value that a client has pushed last."""
        self.pass_on: Callable[[bytes, Mapping[str, str]], None] | None = None
        """Forwards each push unchanged, with the client's identity."""

    @property
    def max_bytes(self) -> int:
        """Return the size limit of one push, in compressed form."""
        return self._config.get_int("telemetry.max.bytes")

    def instances(self) -> int:
        """Return the number of known client instances."""
        self._forget()
        return len(self._instances)

    def subscription(self, instance_id: Uuid, context: RequestContext) -> tuple[Uuid, InstanceSubscription]:
        """Return the client's subscription. A client without an instance id gets an id. Raises KafkaError
        THROTTLING_QUOTA_EXCEEDED if the client requests it too early.
        """
        instance_id = instance_id or Uuid.random()
        instance, now_ms = self._instance(instance_id, context), self._clock.monotonic_ms()
        if not instance.may_get(now_ms):
            raise self._early(instance_id)
        instance.got_ms, instance.may_ask = now_ms, False
        return instance_id, instance.asked

    async def push(
        self,
        instance_id: Uuid,
        subscription_id: int,
        context: RequestContext,
        *,
        terminating: bool,
        codec: int,
        data: bytes,
    ) -> None:
        """Accept a client's metrics. Raises KafkaError if the push is refused."""
        if not instance_id:
            raise self._refusal(ErrorCode.INVALID_REQUEST, "The request has no client instance id.")
        instance, now_ms = self._instance(instance_id, context), self._clock.monotonic_ms()
        if instance.terminating:
            text = f"Client {instance_id} has already sent its last push."
            raise self._refusal(ErrorCode.INVALID_REQUEST, text)
        if not instance.may_push(now_ms) and not terminating:
            raise self._early(instance_id)
        instance.pushed_ms = now_ms
        if subscription_id != instance.asked.subscription_id:
            instance.may_ask = True
            raise self._refusal(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                f"Subscription {subscription_id} is no longer valid. Get the current one with "
                "GetTelemetrySubscriptions.",
            )
        if codec not in (UNCOMPRESSED, *COMPRESSION_TYPES):
            instance.may_ask = True
            raise self._refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {codec}.")
        if len(data) > self.max_bytes:
            text = f"The metrics have {len(data)} bytes, more than telemetry.max.bytes={self.max_bytes}."
            raise self._refusal(ErrorCode.TELEMETRY_TOO_LARGE, text)
        instance.terminating = terminating
        plain = await self._take(data, codec, instance.asked.metrics)
        if plain and self.pass_on is not None:
            self.pass_on(plain, described(instance_id, context))

    async def _take(self, data: bytes, codec: int, prefixes: tuple[str, ...]) -> bytes:
        """Add a push to the sums and return it uncompressed. Parsing runs off the loop, one push at a time."""
        plain = b""
        if data:
            loop, bytes_max = asyncio.get_running_loop(), max(UNPACKED_BYTES_MAX, self.max_bytes)
            try:
                async with self._reading:
                    plain, found = await loop.run_in_executor(None, read, codec, data, bytes_max)
            except (ValueError, MalformedError) as problem:
                raise self._refusal(ErrorCode.INVALID_RECORD, f"Cannot decode the metrics: {problem}") from None
            wanted = "" if prefixes == (ALL_METRICS,) else prefixes
            for number in found:
                kept, other = (self.sums, self.gauges) if number.is_sum else (self.gauges, self.sums)
                full = len(self.sums) + len(self.gauges) >= NAMES_MAX
                if not number.name.startswith(wanted) or number.name in other or (full and number.name not in kept):
                    self.unshown += 1
                    continue
                value = number.value + (self.sums.get(number.name, 0.0) if number.is_sum else 0.0)
                if isfinite(value):
                    kept[number.name] = value
        self.pushes += 1
        self.push_bytes += len(data)
        return plain

    def _instance(self, instance_id: Uuid, context: RequestContext) -> _Instance:
        """Return the client instance with its current subscription."""
        self._look()
        now_ms = self._clock.monotonic_ms()
        found = self._instances.get(instance_id)
        if found is None:
            self._forget()
            if len(self._instances) >= INSTANCES_MAX:
                self._instances.popitem(last=False)
            asked = asked_of(instance_id, described(instance_id, context), self._subscriptions)
            found = self._instances[instance_id] = _Instance(asked, self._of, now_ms)
        elif found.of is not self._of:
            asked = asked_of(instance_id, described(instance_id, context), self._subscriptions)
            # If a subscription has changed, a client may fetch it before its interval ends.
            found.may_ask = found.may_ask or asked != found.asked
            found.asked, found.of = asked, self._of
        found.seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        return found

    def _look(self) -> None:
        """Read the subscriptions again if the stored subscriptions have changed."""
        stored = self._view.image.client_metrics
        if stored is self._of:
            return
        self._of, self._subscriptions = stored, []
        for name, stored_config in stored.items():
            if not stored_config.config:
                continue
            try:
                self._subscriptions.append(MetricsSubscription.of(stored_config.config))
            except (ConfigError, ValueError) as problem:
                log.error("ignored a damaged client metrics subscription name=%r: %s", name, problem)

    def _forget(self) -> None:
        """Remove expired instances. The instances are ordered by their last request, the oldest first."""
        now_ms = self._clock.monotonic_ms()
        while self._instances:
            instance_id, oldest = next(iter(self._instances.items()))
            if now_ms - oldest.seen_ms < SILENT_INTERVALS * oldest.asked.interval_ms:
                return
            del self._instances[instance_id]

    def _early(self, instance_id: Uuid) -> KafkaError:
        text = f"Request from the client [{instance_id}] arrived before the next push interval time"
        return self._refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    def _refusal(self, code: ErrorCode, text: str) -> KafkaError:
        self.refused[code] += 1
        return KafkaError(code, text)

"""Combines the stored subscriptions that match a client. Pure (ClientMetricsManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pybroker.broker.requests.context import RequestContext
from pybroker.config.client_metrics_defs import (
    ALL_METRICS,
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    INTERVAL,
    INTERVAL_DEFAULT_MS,
    MATCH,
    METRICS,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    SOURCE_ADDRESS,
    SOURCE_PORT,
    parsed_match,
)
from pybroker.native import Pattern, Uuid, crc32c

ALL_CLIENTS: Mapping[str, Pattern] = {}


class MetricsSubscription(msgspec.Struct, frozen=True):
    """One stored subscription."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern]

    @staticmethod
    def of(config: Mapping[str, str]) -> MetricsSubscription:
        """Parse a subscription's settings. Raises ConfigError or ValueError if a setting is invalid; a broker of this
        version never stores such a setting.
        """
        metrics = tuple(filter(None, (metric.strip() for metric in config.get(METRICS, "").split(","))))
        interval_ms = int(config.get(INTERVAL, INTERVAL_DEFAULT_MS))
        return MetricsSubscription(
            metrics, interval_ms, parsed_match(config[MATCH]) if MATCH in config else ALL_CLIENTS
        )

    def matches(self, values: Mapping[str, str]) -> bool:
        """Return whether each selector's expression matches the whole value that the client has sent."""
        return all(pattern.matches(values[selector]) for selector, pattern in self.match.items())


class InstanceSubscription(msgspec.Struct, frozen=True):
    """The combined subscription of one client instance."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    """Prefixes; ("*",) for all metrics."""


def described(instance_id: Uuid, context: RequestContext) -> Mapping[str, str]:
    """Return a client's values by selector."""
    return {
        CLIENT_INSTANCE_ID: str(instance_id),
        CLIENT_ID: context.client_id or "",
        SOFTWARE_NAME: context.client_software[0],
        SOFTWARE_VERSION: context.client_software[1],
        SOURCE_ADDRESS: context.client_host,
        SOURCE_PORT: str(context.client_port),
    }


def asked_of(
    instance_id: Uuid, values: Mapping[str, str], subscriptions: Iterable[MetricsSubscription]
) -> InstanceSubscription:
    """Combine the matching subscriptions: the shortest interval, and the metrics of all. If the interval or the metrics
    change, the subscription id changes too.
    """
    found = [subscription for subscription in subscriptions if subscription.matches(values)]
    metrics: tuple[str, ...] = tuple(sorted({name for subscription in found for name in subscription.metrics}))
    if ALL_METRICS in metrics:
        metrics = (ALL_METRICS,)
    interval_ms = min((subscription.interval_ms for subscription in found), default=INTERVAL_DEFAULT_MS)
    crc = crc32c(f"{metrics}{interval_ms}".encode() + instance_id.bytes)
    return InstanceSubscription(crc - (1 << 32) if crc >= 1 << 31 else crc, interval_ms, metrics)

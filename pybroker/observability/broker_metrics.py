"""The metrics of one broker: native text, identity, and the sizes that the control plane knows."""

from __future__ import annotations

from pybroker.observability.metrics import Gauge, identity_gauges, render_gauges
from pybroker.services import Services
from pybroker.version import version

_VERSION = version()


def broker_metrics(services: Services) -> str:
    """Prometheus text; called on the loop's thread, each time somebody scrapes."""
    gauges = identity_gauges(services.cluster_id, services.broker_id, _VERSION)
    return services.native.metrics() + render_gauges([*gauges, *_sizes(services)])


def _sizes(services: Services) -> list[Gauge]:
    return []

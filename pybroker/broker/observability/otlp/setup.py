"""Creates the export from the broker's settings."""

from __future__ import annotations

from pybroker.broker.observability.otlp.export import Export, Source
from pybroker.broker.observability.otlp.sender import OtlpSender
from pybroker.broker.services import Services
from pybroker.config import BrokerConfig
from pybroker.config.broker_otlp import ENDPOINT, HEADERS, RESOURCE, pairs
from pybroker.version import version


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

"""Settings of the export to an OpenTelemetry collector (`pybroker[otlp]`). Kafka has none of them."""

from __future__ import annotations

from urllib.parse import urlsplit

from pybroker.config.setting_values import ConfigKey, ConfigType, InvalidValue, Value, at_least

ENDPOINT = "otlp.endpoint"
HEADERS = "otlp.headers"
RESOURCE = "otlp.resource.attributes"


def pairs(text: str) -> dict[str, str]:
    """Parse `name=value,…`. Raises InvalidValue, whose text does not contain `text`."""
    found: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise InvalidValue("expected comma-separated name=value pairs")
        found[name.strip()] = value.strip()
    return found


def _endpoint(value: Value) -> None:
    if value:
        parts = urlsplit(str(value))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidValue("expected http://host:port or https://host:port")


def _pairs(value: Value) -> None:
    pairs(str(value or ""))


OTLP = (
    ConfigKey(
        ENDPOINT,
        ConfigType.STRING,
        "",
        (
            "URL of an OpenTelemetry collector (OTLP over HTTP), without /v1/metrics or /v1/traces. It receives this "
            "broker's metrics, traces of requests that take slow.request.log.ms or longer, and metrics that clients "
            "push. Empty: none. Requires the extra otlp (docs/install.md). Not one of Kafka's settings."
        ),
        _endpoint,
    ),
    ConfigKey(
        HEADERS,
        ConfigType.PASSWORD,
        None,
        (
            "Headers of requests to otlp.endpoint, as comma-separated name=value pairs, for example for "
            "authentication. Not one of Kafka's settings."
        ),
        _pairs,
    ),
    ConfigKey(
        RESOURCE,
        ConfigType.STRING,
        "",
        (
            "Resource attributes of exported metrics and traces, as comma-separated name=value pairs, in addition to "
            "service.name, service.version, service.instance.id (the broker's id) and pybroker.cluster.id. Not one of "
            "Kafka's settings."
        ),
        _pairs,
    ),
    ConfigKey(
        "otlp.interval.ms",
        ConfigType.INT,
        60_000,
        "Interval at which metrics are exported to otlp.endpoint, in ms. Not one of Kafka's settings.",
        at_least(100),
    ),
    ConfigKey(
        "otlp.timeout.ms",
        ConfigType.INT,
        10_000,
        "Timeout of one export attempt to otlp.endpoint, in ms. Not one of Kafka's settings.",
        at_least(1),
    ),
    ConfigKey(
        "otlp.client.metrics.enable",
        ConfigType.BOOLEAN,
        True,
        "Forward metrics that clients push (KIP-714) to otlp.endpoint. Not one of Kafka's settings.",
    ),
)

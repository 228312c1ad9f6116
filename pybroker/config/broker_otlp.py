"""Settings of the export to an OpenTelemetry collector (`pybroker[otlp]`). Kafka has none of them."""

from __future__ import annotations

from urllib.parse import urlsplit

from pybroker.config.values import ConfigKey, ConfigType, InvalidValue, Value, at_least

ENDPOINT = "otlp.endpoint"
HEADERS = "otlp.headers"
RESOURCE = "otlp.resource.attributes"


def pairs(text: str) -> dict[str, str]:
    """Parse `name=value,…`. Raises InvalidValue, whose text does not contain `text`."""
    found: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise InvalidValue("expected name=value pairs with commas between them")
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
        "URL of an OpenTelemetry collector (OTLP over HTTP), before /v1/metrics and /v1/traces: gets this broker's "
        "metrics, traces of requests that take slow.request.log.ms or longer, and metrics that clients push. Empty: "
        "none. Needs pip install 'pybroker[otlp]'. Not one of Kafka's settings.",
        _endpoint,
    ),
    ConfigKey(
        HEADERS,
        ConfigType.PASSWORD,
        None,
        "Headers of requests to otlp.endpoint, as name=value pairs with commas: what it knows this broker by. Not one "
        "of Kafka's settings.",
        _pairs,
    ),
    ConfigKey(
        RESOURCE,
        ConfigType.STRING,
        "",
        "Attributes of the resource that metrics and traces sent to otlp.endpoint are of, besides service.name, "
        "service.version, service.instance.id (the broker's id) and pybroker.cluster.id: name=value pairs with commas. "
        "Not one of Kafka's settings.",
        _pairs,
    ),
    ConfigKey(
        "otlp.interval.ms",
        ConfigType.INT,
        60_000,
        "How often metrics are sent to otlp.endpoint. Not one of Kafka's settings.",
        at_least(100),
    ),
    ConfigKey(
        "otlp.timeout.ms",
        ConfigType.INT,
        10_000,
        "How long one attempt to send something to otlp.endpoint may take. Not one of Kafka's settings.",
        at_least(1),
    ),
    ConfigKey(
        "otlp.client.metrics.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether metrics that clients push (KIP-714) are passed on to otlp.endpoint. Not one of Kafka's settings.",
    ),
)

"""One function per target. A declared error of the product is a refusal; any other exception is a defect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from pybroker.broker.client_metrics.otlp_reader import MalformedError, numbers
from pybroker.broker.security.oauth.jwks import JwksError, KeySet
from pybroker.config.jaas import module_of, options, options_of_client
from pybroker.config.properties import PropertiesError, read_properties, write_properties
from pybroker.config.setting_values import InvalidValue
from pybroker.console.queries import avro_decoding, value_decoding

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def jaas(data: bytes) -> None:
    """Parse texts of `sasl.jaas.config`."""
    text = data.decode("utf-8", "replace")
    module_of(text)
    with contextlib.suppress(InvalidValue):
        options(text, MODULE, "…")
    with contextlib.suppress(InvalidValue):
        options_of_client(text)


def properties(data: bytes) -> None:
    """Parse settings files. A parsed file can be written and parsed again with the same result."""
    try:
        found = {each.key: each.value for each in read_properties(data.decode("utf-8", "replace"))}
    except PropertiesError:
        return
    again = {each.key: each.value for each in read_properties(write_properties(found))}
    assert again == found


def jwks(data: bytes) -> None:
    """Parse keys of an identity provider."""
    with contextlib.suppress(JwksError):
        KeySet.parse(data)


def avro_schema(data: bytes) -> None:
    """Parse schemas that a person pastes into the console."""
    with contextlib.suppress(avro_decoding.AvroError):
        avro_decoding.parsed_schema(data.decode("utf-8", "replace"))


def shown_value(data: bytes) -> None:
    """Format values of records for the console's pages, in each format, with a fixed schema."""
    for how in value_decoding.FORMATS:
        value_decoding.decode_value(data, how, _SCHEMA)


def telemetry(data: bytes) -> None:
    """Parse metrics that clients push (OTLP)."""
    with contextlib.suppress(MalformedError):
        numbers(data)


_SCHEMA = avro_decoding.parsed_schema(
    '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"},'
    ' {"name": "many", "type": {"type": "array", "items": ["null", "string", "R"]}}]}'
)

TARGETS: Mapping[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (jaas, properties, jwks, avro_schema, shown_value, telemetry)
}

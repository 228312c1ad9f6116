"""DescribeConfigs requests and responses for AdminClient and Spark's driver. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pybroker.client.admin.config_types import ConfigEntry, ConfigResource, ConfigResourceType, ConfigSynonym
from pybroker.protocol import messages as m


class DescribedConfig(NamedTuple):
    """The settings of one resource by name. If error_code is not 0, there are no settings."""

    resource: ConfigResource
    error_code: int
    error_message: str | None
    entries: dict[str, ConfigEntry]


def describe_request(
    resources: Iterable[ConfigResource],
    names: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> m.DescribeConfigsRequest:
    """Return a DescribeConfigs request for all settings of the resources, or for the given names."""
    keys = None if names is None else list(names)
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsRequest_DescribeConfigsResource(
                resource_type=each.type,
                resource_name=each.name,
                topic_id=each.topic_id,
                configuration_keys=keys,
            )
            for each in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def described(answer: Any) -> list[DescribedConfig]:
    """Return the rows of a response, in its order."""
    return [
        DescribedConfig(
            answered_resource(row),
            row.error_code,
            row.error_message,
            {each.name: _entry(each) for each in row.configs},
        )
        for row in answer.results
    ]


def answered_resource(row: Any) -> ConfigResource:
    """Return the resource of a response row, equal to the resource in the request."""
    return ConfigResource(ConfigResourceType(row.resource_type), row.resource_name, row.topic_id)


def _entry(row: Any) -> ConfigEntry:
    return ConfigEntry(
        row.name,
        row.value,
        row.config_source,
        row.read_only,
        row.is_sensitive,
        tuple(ConfigSynonym(each.name, each.value, each.source) for each in row.synonyms),
        row.config_type,
        row.documentation,
    )

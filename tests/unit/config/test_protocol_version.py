"""`inter.broker.protocol.version`: Kafka's names from 2.0 to 3.9, and which of them have topic ids."""

from __future__ import annotations

import pytest

from pybroker.config import ConfigError, load_config
from pybroker.config.protocol_version import has_topic_ids

NAME = "inter.broker.protocol.version"


@pytest.mark.checklist(206, 210, "X19", "D28")
@pytest.mark.parametrize(
    ("version", "topic_ids"),
    [
        *((version, False) for version in ("2.0", "2.0-IV1", "2.4.1", "2.6-IV0", "2.7", "2.7-IV2", "2.7.2")),
        *(
            (version, True)
            for version in ("2.8", "2.8-IV0", "2.8-IV1", "3.0-IV1", "3.1-IV0", "3.7-IV4", "3.9", "3.9.1")
        ),
    ],
)
def test_versions_with_and_without_topic_ids(version: str, topic_ids: bool) -> None:
    config, warnings = load_config(None, [f"{NAME}={version}"])
    assert config[NAME] == version
    assert has_topic_ids(version) == topic_ids == config.topic_ids
    assert config.native_settings()["topic.ids"] == topic_ids
    assert warnings == []


def test_the_default_is_the_last_one() -> None:
    config, _ = load_config(None, [])
    assert (config[NAME], config.topic_ids) == ("3.9-IV0", True)


@pytest.mark.checklist(206)
@pytest.mark.parametrize(
    "version",
    ["", "1.1", "0.10.2", "2.7-IV3", "2.8-IV9", "4.0", "2", "2.7-", "2.7-IV", "v2.7", "\u0662.\u0667", "nonsense"],
)
def test_anything_else_is_refused_in_one_line(version: str) -> None:
    with pytest.raises(ConfigError, match=r"from 2\.0 to 3\.9") as refused:
        load_config(None, [f"{NAME}={version}"])
    assert "\n" not in str(refused.value)

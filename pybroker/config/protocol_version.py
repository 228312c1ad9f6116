"""`inter.broker.protocol.version`: its values, and its only effect in pybroker: topics have ids from 2.8 on (KIP-516).

Each layer handles "no ids" in one place: `Api::newest` (native/protocol, the supported requests),
`controller/topic_id_visibility.py` (the content of the metadata store, and the upgrade), `DeletionRecord.by_order`
(deletion of topics).
"""

from __future__ import annotations

import re

from pybroker.config.setting_values import InvalidValue, Value

PROTOCOL_VERSION = "inter.broker.protocol.version"
LATEST = "3.9-IV0"
"""Kafka's last value; 4.0 removed the setting."""

_RELEASES = {
    **{"2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2},
    **{"3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1},
}
"""Release → number of its internal versions (IV0, IV1, …) in Apache Kafka."""
_FIRST_WITH_IDS = (2, 8)
_FORM = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*(?:-IV(\d+))?", re.ASCII)


def check_protocol_version(value: Value) -> None:
    """Accept Kafka's names: `2.7`, `2.7.1`, `2.7-IV2`. Raises InvalidValue for any other text."""
    found = _FORM.fullmatch(str(value))
    versions = 0 if found is None else _RELEASES.get(f"{int(found[1])}.{int(found[2])}", 0)
    if found is None or int(found[3] or 0) >= versions:
        raise InvalidValue("expected a protocol version from 2.0 to 3.9 by Kafka's name, such as 2.7, 2.7-IV2 or 3.9")


def has_topic_ids(version: str) -> bool:
    """Return whether topics have ids that clients see, for a valid version."""
    major, minor = version.partition("-")[0].split(".")[:2]
    return (int(major), int(minor)) >= _FIRST_WITH_IDS

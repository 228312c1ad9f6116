"""The messages of controllers to a broker that runs as `tests.cluster.hears`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.native import Uuid
from tests.support.cluster import until
from tests.support.lives_in_cluster import Everywhere


class Heard(NamedTuple):
    """A cluster, and the file in which one of its brokers records the messages that it gets."""

    brokers: Everywhere
    file: Path

    def said(self, kind: str, topic_id: Uuid | None = None) -> list[dict[str, Any]]:
        """Return the messages of a kind that name the topic, in order."""
        # The last line may be incomplete.
        whole, _, _ = self.file.read_text().rpartition("\n")
        lines = (json.loads(line) for line in whole.splitlines())
        found = [one for one in lines if one["said"] == kind]
        return [one for one in found if topic_id is None or states(one, topic_id)]

    def first(self, kind: str, topic_id: Uuid) -> dict[str, Any]:
        """Return the first message of a kind that names the topic; wait for it."""
        until(lambda: self.said(kind, topic_id))
        return self.said(kind, topic_id)[0]


def states(message: dict[str, Any], topic_id: Uuid) -> list[dict[str, Any]]:
    """Return the partition states of a topic in a message."""
    topics = [one for one in message["topic_states"] if one["topic_id"] == str(topic_id)]
    return [state for topic in topics for state in topic["partition_states"]]

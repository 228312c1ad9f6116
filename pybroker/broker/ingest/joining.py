"""Copies staged records of open ingests to a replica before it joins the ISR, because it may lead next."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.ingest.leader import IngestLeader
from pybroker.native import IsrProposal


class Joining:
    """The copying on the partition's leader."""

    def __init__(self, leader: IngestLeader, view: ClusterView) -> None:
        self._leader = leader
        self._view = view

    def bring(self, proposal: IsrProposal) -> Coroutine[Any, Any, None] | None:
        """Return the work to do before the leader proposes the ISR change; None: nothing. The coroutine raises
        KafkaError."""
        image = self._view.image
        topic = image.topic_by_id(proposal.topic_id)
        if topic is None or not any(key[0] == proposal.topic_id for key in image.ingests):
            return None
        known = topic.partitions[proposal.partition].isr if proposal.partition < len(topic.partitions) else ()
        joins = [member.broker_id for member in proposal.isr if member.broker_id not in known]
        return self._leader.bring(proposal.topic_id, proposal.partition, joins) if joins else None

"""The reports of this broker to the controller: its broker epoch, and the offset up to which it has applied the
metadata topic. Its fetches of the topic carry the reports, which replace heartbeats while the broker fetches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from pybroker.broker.quorum.applied_offsets import AppliedOffsets


class BrokerReport(NamedTuple):
    """The content of a report."""

    broker_epoch: int
    """-1 if this process is not registered."""
    applied: int


NOTHING = BrokerReport(-1, -1)


def is_served(response: Any) -> bool:
    """Return whether the leader of the quorum has served a Fetch."""
    return not response.error_code and not any(
        partition.error_code for topic in response.responses for partition in topic.partitions
    )


class FetchReports:
    """The reports of this broker; used on the loop's thread."""

    def __init__(self) -> None:
        self.offsets = AppliedOffsets()
        """The other brokers' reports, as far as this broker knows them."""
        self.current = NOTHING
        """Returns the content of the next report."""
        self._received = NOTHING
        self._received_at = float("-inf")
        self.on_received: Callable[[BrokerReport], None] = lambda report: None
        """Called with each report that the leader of the quorum has received."""

    def received(self, report: BrokerReport) -> None:
        """Record that the leader of the quorum has answered a fetch with this report."""
        self._received, self._received_at = report, asyncio.get_running_loop().time()
        self.on_received(report)

    def is_known(self, report: BrokerReport, age_s: float) -> bool:
        """Return whether the leader got this report within the last `age_s` seconds."""
        return self._received == report and asyncio.get_running_loop().time() - self._received_at <= age_s

"""All of share groups that a broker has, as one thing to hand on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.coordinators.group.share import ShareCoordination
from pybroker.coordinators.share.settings import ShareSettings
from pybroker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.coordinators.share_partition.manager import SharePartitions
from pybroker.coordinators.share_state.coordinator import ShareStateCoordinator


class Shares(msgspec.Struct, frozen=True):
    """What handlers are bound to."""

    coordination: ShareCoordination
    partitions: SharePartitions
    states: ShareStateCoordinator
    settings: ShareSettings
    dead_letters: DeadLetterAppends
    disconnect: Callable[[], None] | None
    """Ends the connections to other brokers, at a stop; None of a broker that is alone."""

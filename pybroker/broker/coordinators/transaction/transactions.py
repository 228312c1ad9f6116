"""All of transactions that a broker has, as one thing to hand on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.dead_topics import OwedMarkers
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.membership import Membership
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits


class Transactions(msgspec.Struct, frozen=True):
    """What handlers are bound to."""

    coordinator: TransactionCoordinator
    membership: Membership
    markers: LocalMarkers
    owed: OwedMarkers
    commits: TransactionalCommits
    clock: Clock
    disconnect: Callable[[], None] | None
    """Ends the connections to other brokers, at a stop; None of a broker that is alone."""

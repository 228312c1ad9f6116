"""This broker's registration: `/brokers/ids/[id]`, and whether its life before ended with a clean stop."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.clock import Clock
from pybroker.errors import StartError
from pybroker.metadata import znodes
from pybroker.metadata.store import Create, Delete, MetadataStore, MultiError, NodeExistsError, Operation
from pybroker.metadata.znodes import BrokerNode, Endpoint


class Registered(NamedTuple):
    """`epoch` is the creation number of the registration (KIP-380)."""

    epoch: int
    clean: bool


class Membership:
    """Registers and leaves."""

    def __init__(self, store: MetadataStore, clock: Clock, broker_id: int) -> None:
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._path = f"{znodes.BROKER_IDS}/{broker_id}"
        self._clean_path = f"{znodes.CLEAN_SHUTDOWNS}/{broker_id}"

    async def register(self, endpoints: tuple[Endpoint, ...], rack: str | None) -> Registered:
        """Creates the node, and takes away the mark of the clean stop in the same multi: a crash from now on counts
        as one."""
        clean = await self._store.exists(self._clean_path) is not None
        node = BrokerNode(endpoints, rack, self._clock.wall_ms())
        operations: list[Operation] = [Create(self._path, node.encode(), ephemeral=True)]
        if clean:
            operations.append(Delete(self._clean_path))
        try:
            await self._store.multi(operations)
        except MultiError as error:
            if isinstance(error.cause, NodeExistsError):
                raise StartError(
                    f"broker id {self._broker_id} is in use by a live broker of this cluster; choose another node.id"
                ) from None
            raise
        return Registered((await self._store.get(self._path)).created_zxid, clean)

    async def leave(self) -> None:
        """After everything is on disk: the next start need not begin new leader epochs."""
        await self._store.multi([Delete(self._path), Create(self._clean_path)])

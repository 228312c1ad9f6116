"""Usage of clients' `controller_mutation_rate`, counted by native code while this broker is the controller."""

from __future__ import annotations

from pybroker.native import NativeQuotas
from pybroker.protocol.caller import Caller


class CountedMutations:
    """Implements `controller.mutation_quota.Mutations`."""

    def __init__(self, native: NativeQuotas) -> None:
        self._native = native

    def bounds(self, caller: Caller) -> bool:
        """See `Mutations.bounds`."""
        return self._native.bounds_mutations(_user(caller), caller.client_id)

    def take(self, caller: Caller, partitions: int) -> tuple[bool, int]:
        """See `Mutations.take`."""
        return self._native.mutate(_user(caller), caller.client_id, partitions, strict=not caller.slowed_only)


def _user(caller: Caller) -> str:
    return caller.principal.partition(":")[2]

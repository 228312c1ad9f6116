"""Usage of clients' `controller_mutation_rate`, counted by native code while this broker is the controller."""

from __future__ import annotations

from pybroker.native import NativeQuotas
from pybroker.protocol.caller import Caller


class NativeMutationUsage:
    """Implements `controller.mutation_quota.MutationUsage`."""

    def __init__(self, native: NativeQuotas) -> None:
        self._native = native

    def has_quota(self, caller: Caller) -> bool:
        """See `Mutations.bounds`."""
        return self._native.bounds_mutations(_user(caller), caller.client_id)

    def charge(self, caller: Caller, partitions: int) -> tuple[bool, int]:
        """See `Mutations.take`."""
        return self._native.mutate(_user(caller), caller.client_id, partitions, strict=not caller.slowed_only)


def _user(caller: Caller) -> str:
    return caller.principal.partition(":")[2]

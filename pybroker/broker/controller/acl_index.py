"""An index of ACLs that speeds up one decision. Without it, comparing thousands of filters with all ACLs of a large
cluster would block the controller for minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pybroker.broker.metadata.acl_nodes import WILDCARD, AclBinding, AclFilter
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType

_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)

Kind = tuple[int, int, int, int]
"""(resource type, pattern type, operation, permission)"""


class AclIndex:
    """ACLs by the fields that a filter can name."""

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        self._place: dict[AclBinding, int] = {}
        self._by_name: dict[tuple[int, str], list[AclBinding]] = defaultdict(list)
        self._by_principal: dict[str, list[AclBinding]] = defaultdict(list)
        self._by_host: dict[str, list[AclBinding]] = defaultdict(list)
        self._by_kind: dict[Kind, list[AclBinding]] = defaultdict(list)
        self._prefix_lengths: set[int] = set()
        for place, binding in enumerate(bindings):
            self._place[binding] = place
            self._by_name[binding.pattern_type, binding.name].append(binding)
            self._by_principal[binding.principal].append(binding)
            self._by_host[binding.host].append(binding)
            self._by_kind[binding.resource_type, binding.pattern_type, binding.operation, binding.permission].append(
                binding
            )
            if binding.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths.add(len(binding.name))

    def matching(self, which: AclFilter) -> tuple[AclBinding, ...]:
        """Return the ACLs that match the filter, in the order of the index."""
        found = [binding for binding in self._candidates(which) if which.matches(binding)]
        return tuple(sorted(found, key=self._place.__getitem__))

    def _candidates(self, which: AclFilter) -> Iterable[AclBinding]:
        """Return the ACLs of the rarest value that the filter names: a topic, a principal or a host may have thousands
        of ACLs."""
        named: list[list[Sequence[AclBinding]]] = []
        if which.name is not None:
            patterns = self._patterns(which.pattern_type, which.name)
            named.append([self._by_name[pattern] for pattern in patterns if pattern in self._by_name])
        if which.principal is not None:
            named.append([self._by_principal.get(which.principal, ())])
        if which.host is not None:
            named.append([self._by_host.get(which.host, ())])
        if named:
            rarest = min(named, key=lambda lists: sum(map(len, lists)))
            return chain.from_iterable(rarest)
        return chain.from_iterable(bindings for kind, bindings in self._by_kind.items() if _is_of(which, kind))

    def _patterns(self, pattern_type: int, name: str) -> Iterator[tuple[int, str]]:
        if pattern_type != PatternType.MATCH:
            for pattern in _PATTERNS:
                yield pattern, name
            return
        for literal in dict.fromkeys((name, WILDCARD)):
            yield PatternType.LITERAL, literal
        for length in self._prefix_lengths:
            if length <= len(name):
                yield PatternType.PREFIXED, name[:length]


def _is_of(which: AclFilter, kind: Kind) -> bool:
    resource_type, pattern_type, operation, permission = kind
    return (
        which.resource_type in (ResourceType.ANY, resource_type)
        and which.pattern_type in (PatternType.ANY, PatternType.MATCH, pattern_type)
        and which.operation in (AclOperation.ANY, operation)
        and which.permission in (PermissionType.ANY, permission)
    )

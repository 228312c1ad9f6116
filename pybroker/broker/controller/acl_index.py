"""An index of ACLs that speeds up one decision. Without it, comparing thousands of filters with all ACLs of a large
cluster would block the controller for minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
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
        if which.name is not None:
            return self._named(which.pattern_type, which.name)
        if which.principal is not None:
            return self._by_principal.get(which.principal, ())
        if which.host is not None:
            return self._by_host.get(which.host, ())
        return chain.from_iterable(bindings for kind, bindings in self._by_kind.items() if _is_of(which, kind))

    def _named(self, pattern_type: int, name: str) -> Iterator[AclBinding]:
        if pattern_type != PatternType.MATCH:
            for pattern in _PATTERNS:
                yield from self._by_name.get((pattern, name), ())
            return
        for literal in dict.fromkeys((name, WILDCARD)):
            yield from self._by_name.get((PatternType.LITERAL, literal), ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from self._by_name.get((PatternType.PREFIXED, name[:length]), ())


def _is_of(which: AclFilter, kind: Kind) -> bool:
    resource_type, pattern_type, operation, permission = kind
    return (
        which.resource_type in (ResourceType.ANY, resource_type)
        and which.pattern_type in (PatternType.ANY, PatternType.MATCH, pattern_type)
        and which.operation in (AclOperation.ANY, operation)
        and which.permission in (PermissionType.ANY, permission)
    )

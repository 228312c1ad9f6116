"""Authorizers for tests of handlers that are not about access control."""

from __future__ import annotations

from typing import Any

from pybroker.broker.security.authorizer import Authorizer
from pybroker.config import BrokerConfig


class NoRules:
    """A replacement for `NativeAuthorizer` that permits everything, as a broker without an authorizer does."""

    def publish(self, **_changes: Any) -> int:
        raise AssertionError("there is no authorizer")

    def permits(self, *_question: object) -> bool:
        return True

    def permits_any(self, *_question: object) -> bool:
        return True

    def permitted_operations(self, _principal: str, _host: str, resource_type: int, _name: str) -> int:
        # All operations that Kafka knows for topics, groups and the cluster.
        return {2: 0xDF8, 3: 0xD48, 4: 0x1FA0}[resource_type]


PERMITS_ALL = Authorizer(NoRules(), BrokerConfig())

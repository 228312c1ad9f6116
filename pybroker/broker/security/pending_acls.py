"""The ACLs that the controller has decided. They are newer than the ACLs in force on the controller's own broker, which
applies decisions like any other broker. The same native code evaluates both.
"""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.security.authorizer import Authorizer
from pybroker.broker.security.security_delta import security_change
from pybroker.config import BrokerConfig
from pybroker.native import NativeAuthorizer
from pybroker.protocol.acl_codes import AclOperation, ResourceType
from pybroker.protocol.caller import Caller


class PendingAcls:
    """Implements `controller.authorization.Rights` for one term of a controller."""

    def __init__(self, config: BrokerConfig) -> None:
        self._native = NativeAuthorizer()
        self._authorizer = Authorizer(self._native, config)

    def follow(self, before: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a decision."""
        found = security_change(before, change)
        if found is not None:
            self._authorizer.update(found)

    def permits(self, caller: Caller, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the decided ACLs permit the operation."""
        return self._native.permits(caller.principal, caller.host, operation, resource_type, name)

"""Who clients are and what they may do, on this broker: what changes comes from the controller, in order."""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.security.authorizer import Authorizer
from pybroker.broker.security.change import security_change
from pybroker.broker.security.credentials import Credentials


class Security(msgspec.Struct, frozen=True):
    """The two that obey."""

    authorizer: Authorizer
    credentials: Credentials

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Requests that start after this obey the change."""
        del after
        found = security_change(before, change)
        if found is not None:
            self.authorizer.update(found)
            self.credentials.update(found)

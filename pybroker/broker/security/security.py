"""Authorization and credentials of this broker; the controller's changes arrive in order."""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.security.authorizer import Authorizer
from pybroker.broker.security.change import security_change
from pybroker.broker.security.credentials import Credentials


class Security(msgspec.Struct, frozen=True):
    """The components that security changes affect."""

    authorizer: Authorizer
    credentials: Credentials

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a change; requests that start later follow it."""
        del after
        found = security_change(before, change)
        if found is not None:
            self.authorizer.update(found)
            self.credentials.update(found)

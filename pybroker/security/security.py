"""Who clients are and what they may do, on this broker: what changes comes from the controller, in order."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.metadata.control_messages import UpdateSecurity, UpdateSecurityResponse
from pybroker.security.authorizer import Authorizer
from pybroker.security.credentials import Credentials


class Security(NamedTuple):
    """The two that obey."""

    authorizer: Authorizer
    credentials: Credentials

    def update(self, request: UpdateSecurity) -> UpdateSecurityResponse:
        """Requests that start after this obey the change."""
        self.authorizer.update(request)
        self.credentials.update(request)
        return UpdateSecurityResponse()

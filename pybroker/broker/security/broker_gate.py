"""Authentication of brokers on the listener between brokers.

If the listener has a login, a client is a broker if it is a super user, or if it has CLUSTER_ACTION on the cluster;
without an authorizer, if it uses this broker's own login.

If the listener has no login but requires client certificates (`ssl.client.auth=required`), the certificate must name a
super user or a principal with CLUSTER_ACTION; if there are neither super users nor an authorizer, any certificate that
the truststore accepts is sufficient.

If the listener has neither, every client is a broker.
"""

from __future__ import annotations

from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.config import BrokerConfig
from pybroker.config.broker_login import broker_login
from pybroker.config.broker_security import super_users
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class BrokerGate:
    """The check on one broker of a cluster."""

    def __init__(self, config: BrokerConfig, authorizer: Authorizer) -> None:
        self.listener = config.between_brokers
        self._authorizer = authorizer
        self._login = broker_login(config)
        self._supers = super_users(config.get_str("super.users"))
        self._known = {self._login.principal, *self._supers}

    def admits(self, context: RequestContext, principal: str) -> bool:
        """Return whether the principal is a broker."""
        if self._authorizer.enabled:
            return self._authorizer.permits_principal_on_cluster(context, principal, AclOperation.CLUSTER_ACTION)
        if self._login.certified and not self._supers:
            return True
        return principal in self._known

    def require(self, context: RequestContext) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if the client is not a broker. Each request is checked, because
        permissions may be revoked.
        """
        if (self._login.mechanism or self._login.certified) and not self.admits(context, context.principal):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{context.principal} is not a broker.")

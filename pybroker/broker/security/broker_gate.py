"""Who is a broker, on the listener where only brokers talk: whoever logged in there and is a super user, may do
CLUSTER_ACTION on the cluster where there is an authorizer, or logs in as this broker does where there is none. Without
login a certificate says it (`ssl.client.auth=required`): that of a super user, of one who may do CLUSTER_ACTION, or,
where there are neither super users nor an authorizer, each that leads to the listener's truststore. Without either
everybody who reaches the listener is."""

from __future__ import annotations

from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.acls import AclOperation
from pybroker.broker.security.authorizer import Authorizer
from pybroker.config import BrokerConfig
from pybroker.config.broker_login import broker_login
from pybroker.config.broker_security import super_users
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class BrokerGate:
    """Of one broker in a cluster."""

    def __init__(self, config: BrokerConfig, authorizer: Authorizer) -> None:
        self.listener = config.between_brokers
        self._authorizer = authorizer
        self._login = broker_login(config)
        self._supers = super_users(config.get_str("super.users"))
        self._known = {self._login.principal, *self._supers}

    def admits(self, context: RequestContext, principal: str) -> bool:
        """Whether that principal is a broker."""
        if self._authorizer.enabled:
            return self._authorizer.permits_principal_on_cluster(context, principal, AclOperation.CLUSTER_ACTION)
        if self._login.certified and not self._supers:
            return True
        return principal in self._known

    def require(self, context: RequestContext) -> None:
        """For each request, as rights may be taken away. Raises CLUSTER_AUTHORIZATION_FAILED."""
        if (self._login.mechanism or self._login.certified) and not self.admits(context, context.principal):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{context.principal} is no broker.")

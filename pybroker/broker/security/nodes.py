"""Parent paths of the nodes of ACLs, users and delegation tokens."""

from __future__ import annotations

from pybroker.broker.metadata.acls import ACL_PATHS
from pybroker.broker.metadata.delegation_tokens import TOKENS
from pybroker.broker.metadata.users import USER_CONFIGS

SECURITY_PATHS = (*ACL_PATHS, USER_CONFIGS, TOKENS)

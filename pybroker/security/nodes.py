"""The parents of the nodes of entries, users and tokens."""

from __future__ import annotations

from pybroker.metadata.acls import ACL_PATHS
from pybroker.metadata.delegation_tokens import TOKENS
from pybroker.metadata.users import USER_CONFIGS

SECURITY_PATHS = (*ACL_PATHS, USER_CONFIGS, TOKENS)

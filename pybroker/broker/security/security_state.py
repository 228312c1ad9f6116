"""This broker's ACLs, users and tokens. The first state comes from the metadata store; after that, the controller's
changes are applied in order."""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.acl_nodes import ACL_PATHS, ACLS, EXTENDED_ACLS
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.image_loader import guards_image
from pybroker.broker.metadata.metadata_store import MetadataStore, StoreError
from pybroker.broker.metadata.quota_nodes import USER_CONFIGS
from pybroker.broker.metadata.token_nodes import TOKENS
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.broker.security.authorizer import Authorizer, security_change
from pybroker.broker.security.credentials import Credentials
from pybroker.errors import StartError

SECURITY_PATHS = (*ACL_PATHS, USER_CONFIGS, TOKENS)


class Security(msgspec.Struct, frozen=True):
    """The components that security changes affect."""

    authorizer: Authorizer
    credentials: Credentials

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a change. It applies to requests that start later."""
        del after
        found = security_change(before, change)
        if found is not None:
            self.authorizer.update(found)
            self.credentials.update(found)


async def apply_stored(store: MetadataStore, security: Security) -> None:
    """Apply the stored ACLs and credentials. The controller needs them to log in to this broker. Raise StartError if an
    ACL or credential cannot be read.
    """
    try:
        acls = {**await store.subtree(ACLS), **await store.subtree(EXTENDED_ACLS)}
        image = guards_image(acls, await store.subtree(USER_CONFIGS), await store.subtree(TOKENS))
    except (DamagedNodeError, StoreError) as problem:
        raise StartError(f"cannot read ACLs and credentials from the metadata store: {problem}") from None
    await security.apply_change(ClusterImage.initial(0), image, image)

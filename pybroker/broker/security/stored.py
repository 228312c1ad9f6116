"""The ACLs, users and tokens in the metadata store, in force until the controller sends its state."""

from __future__ import annotations

from pybroker.broker.metadata.acls import ACLS, EXTENDED_ACLS
from pybroker.broker.metadata.delegation_tokens import TOKENS
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.load import guards_image
from pybroker.broker.metadata.store import MetadataStore, StoreError
from pybroker.broker.metadata.users import USER_CONFIGS
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.broker.security.security import Security
from pybroker.errors import StartError


async def obey_stored(store: MetadataStore, security: Security) -> None:
    """Apply the stored ACLs and credentials, with which the controller logs in to this broker. Raise StartError."""
    try:
        acls = {**await store.subtree(ACLS), **await store.subtree(EXTENDED_ACLS)}
        image = guards_image(acls, await store.subtree(USER_CONFIGS), await store.subtree(TOKENS))
    except (DamagedNodeError, StoreError) as problem:
        raise StartError(f"cannot read ACLs and credentials from the metadata store: {problem}") from None
    await security.obey(ClusterImage.initial(0), image, image)

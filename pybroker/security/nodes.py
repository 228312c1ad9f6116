"""The parents of the nodes of entries, users and tokens, made when a store is new."""

from __future__ import annotations

from pybroker.metadata.acls import ACL_PATHS
from pybroker.metadata.delegation_tokens import TOKENS
from pybroker.metadata.store import Create, MetadataStore, MultiError
from pybroker.metadata.store import ensure_path as ensure
from pybroker.metadata.users import USER_CONFIGS

_PATHS = (*ACL_PATHS, USER_CONFIGS, TOKENS)


async def ensure_security_paths(store: MetadataStore) -> None:
    """One commit for a new store, none for an old one."""
    # The last of each kind: users may be there before the first start, made by hand.
    if all([await store.exists(path) is not None for path in (ACL_PATHS[-1], USER_CONFIGS, TOKENS)]):
        return
    parents = dict.fromkeys(
        "/".join(parts[: length + 1])
        for parts in (path.split("/") for path in _PATHS)
        for length in range(1, len(parts))
    )
    missing = [path for path in parents if await store.exists(path) is None]
    try:
        await store.multi([Create(path) for path in missing])
    except MultiError:
        # Another broker of the cluster was faster.
        for path in _PATHS:
            await ensure(store, path)

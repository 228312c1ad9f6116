"""Decisions about delegation tokens (KIP-48). Pure; the caller has validated the values."""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import ChangeToken, CreateToken
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Create, Delete, Set
from pybroker.broker.metadata.token_nodes import encode_token, token_path
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


@decides(CreateToken)
def decide_create_token(image: ClusterImage, event: CreateToken) -> Decision:
    """Store a new token. Ids are random: if the id already exists, the event is a retry, and the image stays unchanged.
    """
    token = msgspec.structs.replace(event.token, version=0)
    if token.token_id in image.tokens:
        return nothing(None)
    operation = Create(token_path(token.token_id), encode_token(token))
    return Decision((operation,), ImageDelta(tokens={token.token_id: token}), None)


@decides(ChangeToken)
def decide_change_token(image: ClusterImage, event: ChangeToken) -> Decision:
    """Change the expiry time of a token, or remove it. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND if there is no such
    token, DELEGATION_TOKEN_EXPIRED if it has expired, DELEGATION_TOKEN_OWNER_MISMATCH if the caller may not change it.
    """
    token = image.tokens.get(event.token_id)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token.")
    if event.by is not None and not token.may_be_changed_by(event.by):
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            f"{event.by} is neither the owner nor a renewer of this delegation token.",
        )
    path = token_path(token.token_id)
    if event.expires_ms is None:
        if event.by is None and token.expires_ms > event.now_ms:
            return nothing(token.expires_ms)
        return Decision((Delete(path, token.version),), ImageDelta(tokens={token.token_id: None}), event.now_ms)
    if event.by is not None and token.expires_ms < event.now_ms:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired.")
    changed = msgspec.structs.replace(
        token, expires_ms=min(token.max_ms, event.expires_ms), version=token.version + 1
    )
    operation = Set(path, encode_token(changed), token.version)
    return Decision((operation,), ImageDelta(tokens={token.token_id: changed}), changed.expires_ms)

"""Outcomes of recent requests in the metadata store: `/controller_outcomes/[request id]`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.image import RequestOutcome
from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.metadata.znodes import OUTCOMES, DamagedNodeError, decode_json
from pybroker.native import Uuid


class _OutcomeJson(msgspec.Struct):
    at: int
    event: str
    reply: bytes | None = None


def outcome_path(request_id: Uuid) -> str:
    return f"{OUTCOMES}/{request_id}"


def encode_outcome(outcome: RequestOutcome) -> bytes:
    return msgspec.json.encode({"version": 1, "at": outcome.at_ms, "event": outcome.event, "reply": outcome.reply})


def read_outcomes(nodes: Mapping[str, Node]) -> dict[Uuid, RequestOutcome]:
    """Return the outcomes in nodes. A damaged node no longer has the reply, but still proves that the request was
    decided.
    """
    found: dict[Uuid, RequestOutcome] = {}
    for path, node in nodes.items():
        if path == OUTCOMES:
            continue
        try:
            request_id = Uuid.parse(path.removeprefix(f"{OUTCOMES}/"))
        except ValueError:
            continue  # The node's name is not a request id.
        try:
            read: _OutcomeJson = decode_json(path, node.data, _OutcomeJson)
            found[request_id] = RequestOutcome(read.at, read.event, read.reply)
        except DamagedNodeError:
            found[request_id] = RequestOutcome(node.created_ms, "", None)
    return found

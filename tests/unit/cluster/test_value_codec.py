"""Events and replies are unchanged after sending."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.broker.cluster import events as e
from pybroker.broker.cluster.value_codec import (
    UnreadableError,
    pack_event,
    pack_reply,
    reply_kind,
    unpack_event,
    unpack_reply,
)
from pybroker.broker.controller.internal_events import BrokersChanged
from pybroker.broker.metadata.acl_nodes import AclBinding, AclFilter
from pybroker.broker.metadata.ingest_records import OPEN, IngestRecord
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.errors import KafkaError
from pybroker.native import Uuid

ID = Uuid.random()
BINDING = AclBinding(2, 3, "n", "User:a", "*", 3, 3)
RECORD = IngestRecord(ID, "i", -1, 1, OPEN, 1, 2, {"a": "b"})
TOKEN = DelegationToken("t", "User:a", "User:b", ("User:c",), 1, 3, 2)
EVENTS: list[tuple[e.Event[Any], Any]] = [
    (
        e.CreateTopics((e.NewTopic("a", 1, 1, {0: (1,)}, {"k": "v"}),), False, 3, 4, "User:a"),
        [e.CreatedTopic("a", ID, 1, 1, {}), KafkaError(36, "there")],
    ),
    (e.DeleteTopics((Uuid.random(), ID), "User:a", 1, 2), [e.DeletedTopic("a", ID), KafkaError(3)]),
    (e.TruncateTopics((e.Truncation(ID, True),), "User:a", 1, 2), [e.TruncatedTopic("a", ID, ID)]),
    (e.UndeleteTopic(ID, None, "User:a", 1), e.UndeletedTopic("a", ID)),
    (e.UndeleteTopic(ID, "b", "User:a", 1), KafkaError(3, "gone")),
    (e.CreatePartitions((e.NewPartitions("a", 3, ((1,), (2,)), ID),), True, 5), [None, KafkaError(37, None)]),
    (e.AlterConfigs((e.ConfigChange("topic", "a", {"k": None, "l": "v"}, topic_id=ID),)), [None]),
    (e.CreateAcls((BINDING,)), None),
    (e.DeleteAcls((AclFilter(1, 1, None, None, None, 1, 1),)), [(BINDING,), ()]),
    (e.AlterUsers((e.UserChange("u", {"SCRAM-SHA-256": None}),)), [None, KafkaError(91, "no such user")]),
    (e.AlterClientQuotas((e.QuotaChange((("client-id", None), ("user", "u")), {"a": None, "b": "1"}),)), [None]),
    (e.CreateToken(TOKEN), None),
    (e.ChangeToken("t", None, 5, "User:a"), 5),
    (e.UpdateFeatures((e.FeatureChange("group.version", 0, e.UpgradeType.SAFE_DOWNGRADE),), True), None),
    (e.CommitIngest((ID, "i", -1), 1, {0: (1, 2)}, 3), RECORD),
    (e.DropIngests((((ID, "i", 4), 1),), (((ID, "s", True), 2),), (ID,)), [RECORD]),
    (e.OffsetsRestored(ID, ID, ("g", "h"), 3), None),
]


@pytest.mark.checklist("R26")
@pytest.mark.parametrize(("event", "reply"), EVENTS, ids=lambda value: type(value).__name__)
def test_there_and_back(event: e.Event[Any], reply: Any) -> None:
    assert unpack_event(pack_event(event)) == event
    assert _plain(unpack_reply(type(event), pack_reply(reply))) == _plain(reply)


def _plain(reply: Any) -> Any:
    """Convert errors to values that can be compared."""
    if isinstance(reply, list):
        return [_plain(one) for one in reply]
    return (reply.code, reply.message) if isinstance(reply, KafkaError) else reply


def test_what_only_the_controller_says_to_itself_is_no_event_of_others() -> None:
    with pytest.raises(UnreadableError, match="BrokersChanged"):
        unpack_event(pack_event(BrokersChanged(gone=(1,))))


@pytest.mark.parametrize("data", [b"", b"x", b"\xc1", b"\x92\xa3abc\x01", pack_reply(None)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_event(data)
    with pytest.raises(UnreadableError):
        unpack_reply(e.CreateTopics, data + b"\x01")


def test_every_event_says_what_it_is_answered_with() -> None:
    for kind in e.Event.__subclasses__():
        assert reply_kind(kind) is not Any

"""Every controller knows the outcomes of requests for ten minutes, so a retry is not decided twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pybroker.broker.cluster.controller_client import RequestIdentity
from pybroker.broker.cluster.events import CreateAcls, DeletedTopic, DeleteTopics
from pybroker.broker.controller import request_deduplication as module
from pybroker.broker.controller.request_deduplication import KEPT_MS, RequestOutcomes
from pybroker.broker.metadata.metadata_store import Create, Delete, Node, Operation
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

EVENT = DeleteTopics((Uuid.random(),), "User:a", 0, 0)
REPLY = [DeletedTopic("a", EVENT.topics[0]), KafkaError(3, "unknown")]
NOW_MS = 10 * KEPT_MS


class Store:
    """The nodes after the multis."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def apply(self, operations: Sequence[Operation]) -> None:
        for one in operations:
            match one:
                case Create(path, data):
                    self.nodes[path] = Node(data, 0, 1, 1, 0, 0)
                case Delete(path):
                    del self.nodes[path]


def decide(outcomes: RequestOutcomes, store: Store, asked: RequestIdentity, reply: object = REPLY) -> None:
    kept = outcomes.change_for(EVENT, asked, reply)
    store.apply(kept.operations)
    outcomes.note_durable(kept)


def controller(store: Store, now_ms: int = NOW_MS) -> RequestOutcomes:
    outcomes = RequestOutcomes(lambda: now_ms)
    outcomes.fill(store.nodes)
    return outcomes


@pytest.mark.checklist("R26")
def test_a_successor_knows_the_outcome() -> None:
    store, asked = Store(), RequestIdentity(Uuid.random())
    first = controller(store)
    assert first.find(EVENT, asked) is None
    decide(first, store, asked)
    for one in (first, controller(store)):
        found = one.find(EVENT, RequestIdentity(asked.request_id, 5_000))
        assert found is not None
        deleted, refused = one.reply_of(EVENT, found)
        assert deleted == REPLY[0]
        assert (refused.code, refused.message) == (3, "unknown")
    assert controller(store).find(EVENT, RequestIdentity(Uuid.random(), 5_000)) is None, "certainly not decided"


def refused(outcomes: RequestOutcomes, event: object, asked: RequestIdentity) -> None:
    with pytest.raises(KafkaError) as problem:
        outcomes.find(event, asked)  # type: ignore[arg-type]
    assert problem.value.code == ErrorCode.REQUEST_TIMED_OUT


def test_what_may_have_been_decided_is_not_decided_anew() -> None:
    store = Store()
    long, damaged = RequestIdentity(Uuid.random()), RequestIdentity(Uuid.random())
    decide(controller(store), store, long, [KafkaError(3, "x" * 70_000)])
    refused(controller(store), EVENT, long)
    store.nodes[f"{module.OUTCOMES}/{damaged.request_id}"] = Node(b"{", 0, 1, 1, NOW_MS, 0)
    refused(controller(store), EVENT, damaged)
    refused(controller(store), CreateAcls(()), long)
    # The outcome is older than any outcome that is kept.
    refused(controller(store), EVENT, RequestIdentity(Uuid.random(), KEPT_MS + 1))


def test_old_outcomes_go_with_later_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    for at_ms in (0, 1, 5_000):
        decide(controller(store, NOW_MS + at_ms), store, RequestIdentity(Uuid.random()))
    later = controller(store, NOW_MS + KEPT_MS + 2)
    decide(later, store, RequestIdentity(Uuid.random()))
    assert len(store.nodes) == 2, "two were too old"
    monkeypatch.setattr(module, "OUTCOMES_MAX", 2)
    full = controller(store, NOW_MS + KEPT_MS + 2)
    decide(full, store, RequestIdentity(Uuid.random()))
    assert len(store.nodes) == 2
    # An outcome younger than this request was dropped, so this request may have been decided: refuse it.
    for one in (full, controller(store, NOW_MS + KEPT_MS + 2)):
        refused(one, EVENT, RequestIdentity(Uuid.random(), KEPT_MS - 1_000))
        assert one.find(EVENT, RequestIdentity(Uuid.random())) is None

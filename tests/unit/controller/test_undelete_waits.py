"""Who waits for an undelete when the controller changes, and the name that a topic gets back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.cluster.controller_client import RequestIdentity
from pybroker.broker.cluster.events import (
    CreatedTopic,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.completion import DecisionCompleter, DurableDecision
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.internal_events import BrokersChanged, FinishUndelete
from pybroker.broker.controller.local_controller_client import LocalControllerClient, Submission
from pybroker.broker.controller.outbox import SentChange
from pybroker.broker.controller.topic_decisions import decide_create
from pybroker.broker.controller.topic_deletion import decide_delete
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.metadata.image import ClusterImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import arrival


def create(image: ClusterImage, name: str) -> tuple[ClusterImage, CreatedTopic | KafkaError]:
    decision = decide_create(image, CreateTopics((NewTopic(name, 1, 1, None, {}),), False, 0, 1))
    return image.apply(decision.delta), decision.reply[0]


def undeleting(name: str) -> tuple[ClusterImage, UndeleteTopic]:
    """A cluster in which a topic is being undeleted."""
    image = ClusterImage.initial(1)
    image = image.apply(decide_brokers(image, BrokersChanged((arrival(1, 11),))).delta)
    image, made = create(image, name)
    assert isinstance(made, CreatedTopic)
    image = image.apply(decide_delete(image, DeleteTopics((made.topic_id,), "u", 2, 1_000)).delta)
    event = UndeleteTopic(made.topic_id, None, "u", 3)
    return image.apply(decide_undelete(image, event).delta), event


def deletions(image: ClusterImage) -> tuple[Deletions, DecisionCompleter]:
    """The deletions of a controller that begins with this image."""
    staged: Any = None
    client = LocalControllerClient(1)
    one = Deletions(staged, client, lambda *_: None, lambda: 10)
    one._image = image
    one._take(image.deletions.values())
    return one, DecisionCompleter(client, one, lambda: 0)


def submission(event: UndeleteTopic | CreateTopics) -> Submission:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return Submission(event, 1, None, None, future, 0.0, RequestIdentity(Uuid.random()))


async def test_the_end_of_a_term_makes_the_caller_ask_the_next_controller() -> None:
    image, event = undeleting("a")
    one, completer = deletions(image)
    asked = submission(event)
    decided = completer.track(asked, UndeletedTopic("a", event.topic_id), SentChange())
    waiting = asyncio.ensure_future(completer.answer(asked, decided))
    await asyncio.sleep(0)
    await one.stop()
    with pytest.raises(KafkaError) as ended:
        await waiting
    assert ended.value.code == ErrorCode.NOT_CONTROLLER


async def test_the_next_controller_knows_how_the_undelete_ended() -> None:
    image, event = undeleting("a")
    finished = image.apply(decide_finish_undelete(image, FinishUndelete(event.topic_id, None, {0: (1,)})).delta)
    failed = image.apply(decide_finish_undelete(image, FinishUndelete(event.topic_id, "no data", {})).delta)
    for after, result in ((finished, UndeletedTopic), (failed, KafkaError)):
        _, completer = deletions(after)
        asked = submission(event)
        decided = completer.track(asked, UndeletedTopic("a", event.topic_id), SentChange())
        answer = await asyncio.wait_for(completer.answer(asked, decided), 30)
        assert answer.is_complete
        assert isinstance(answer.reply, result)


async def test_a_wait_that_is_cancelled_when_it_begins_is_no_completion() -> None:
    _, completer = deletions(ClusterImage.initial(1))
    wait: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    wait.cancel()
    asked = submission(CreateTopics((), False, 0, 1))
    with pytest.raises(KafkaError) as ended:
        await completer.answer(asked, DurableDecision([], [wait]))
    assert ended.value.code == ErrorCode.NOT_CONTROLLER


def test_the_name_of_a_topic_that_comes_back_collides_like_that_of_a_live_one() -> None:
    image, _ = undeleting("a_b")
    _, refused = create(image, "a.b")
    assert isinstance(refused, KafkaError)
    assert refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    _, made = create(image, "a_c")
    assert isinstance(made, CreatedTopic)

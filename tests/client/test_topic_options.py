"""Options of AdminClient's methods by KIP-516, as keyword arguments."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.client import AdminClient, NewTopic, TopicCollection, Uuid
from pybroker.protocol import messages as m
from tests.client.conftest import known
from tests.client.fake_broker import FakeBroker


@pytest.mark.checklist(169)
async def test_describing_with_options(admin: AdminClient, name: str) -> None:
    topic_id = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    await known(admin, name)
    for topics in (TopicCollection.of_topic_ids([topic_id]), TopicCollection.of_topic_names([name])):
        plain = admin.describe_topics(topics)
        (described,) = [await future for future in plain.futures()]
        assert (described.name, described.topic_id, described.authorized_operations) == (name, topic_id, None)
        asked = admin.describe_topics(topics, include_authorized_operations=True)
        (described,) = [await future for future in asked.futures()]
        assert (described.name, described.topic_id) == (name, topic_id)
        assert described.authorized_operations


@pytest.mark.checklist(177)
@pytest.mark.parametrize(("options", "expected_ms"), [({}, 30_000), ({"timeout_s": 7.5}, 7_500)])
async def test_deleting_with_options(options: dict[str, Any], expected_ms: int) -> None:
    topic_id = Uuid.random()

    def deleted(request: Any, version: int) -> Any:
        row = m.DeleteTopicsResponse_DeletableTopicResult
        return m.DeleteTopicsResponse(responses=[row(name=one.name, topic_id=one.topic_id) for one in request.topics])

    async with FakeBroker({"DeleteTopicsRequest": deleted}, {3: (0, 12), 18: (0, 4), 20: (1, 6)}) as fake:
        fake.answers["MetadataRequest"] = lambda *_: fake.metadata()
        async with AdminClient({"bootstrap.servers": fake.bootstrap}) as admin:
            by_id = admin.delete_topics(TopicCollection.of_topic_ids([topic_id]), **options).topic_id_values()
            by_name = admin.delete_topics(TopicCollection.of_topic_names(["a"]), **options).topic_name_values()
            assert by_id is not None
            assert by_name is not None
            await by_id[topic_id]
            await by_name["a"]
        asked = fake.asked("DeleteTopicsRequest")
    assert [request.timeout_ms for request in asked] == [expected_ms] * 2
    assert {(one.name, one.topic_id) for request in asked for one in request.topics} == {
        (None, topic_id),
        ("a", Uuid.ZERO),
    }

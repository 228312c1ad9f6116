"""ListTopics (key 32142): KIP-142's request, and its pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.native import Uuid, encode
from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.wire.client import WireClient

TOPICS = 300
NAMES = [f"a.topic-name-of-average-length-{number:03}" for number in range(TOPICS)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with TOPICS topics of four partitions, two of another prefix, and an internal one."""
    broker = PybrokerProcess(tmp_path_factory.mktemp("many"))
    broker.start()
    with WireClient(broker.port) as client:
        topics = [
            m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=4, replication_factor=1)
            for name in [*NAMES, "b.one", "b.two"]
        ]
        created = client.call(m.CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
        assert {topic.error_code for topic in created.topics} == {0}
        client.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        # A request for a coordinator creates the internal topic, at some later time.
        while len(client.call(m.MetadataRequest(topics=None), 12).topics) < TOPICS + 3:
            pass
    yield broker
    broker.kill()


@pytest.fixture
def client(many: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(many.port) as connected:
        yield connected


def names(response: m.ListTopicsResponse) -> list[str]:
    return [topic.name for topic in response.topic_listing]


@pytest.mark.checklist(310, 311, 312, 313, 316, 321, "D33", 331)
def test_version_0_is_the_documents(client: WireClient) -> None:
    users = client.call(m.ListTopicsRequest(list_internal=False), 0)
    assert users.error_code == 0
    assert sorted(names(users)) == [*NAMES, "b.one", "b.two"]
    assert not any(topic.internal for topic in users.topic_listing)
    everything = client.call(m.ListTopicsRequest(list_internal=True), 0)
    assert [topic.name for topic in everything.topic_listing if topic.internal] == ["__consumer_offsets"]
    assert len(everything.topic_listing) == TOPICS + 3
    advertised = client.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4).api_keys
    assert (32142, 0, 1) in [(key.api_key, key.min_version, key.max_version) for key in advertised]


@pytest.mark.checklist(314, 319)
def test_the_answer_holds_nothing_but_names_and_is_much_smaller_than_metadatas(client: WireClient) -> None:
    sizes = {}
    for kind, request, version in [
        ("list", m.ListTopicsRequest(list_internal=True), 0),
        ("metadata", m.MetadataRequest(topics=None), 13),
    ]:
        client.send(request, version, answered=False)  # the test reads the raw frame
        sizes[kind] = len(client.receive_frame())
    # Correlation id, error code, count; then per topic the length of the name, the name, the flag.
    wanted = [*NAMES, "b.one", "b.two", "__consumer_offsets"]
    assert sizes["list"] == 4 + 2 + 4 + sum(2 + len(name) + 1 for name in wanted)
    assert sizes["list"] * 4 < sizes["metadata"]


@pytest.mark.checklist(319)
@pytest.mark.parametrize(
    ("brokers", "partitions", "replicas", "share_max"),
    [(1, 1, 1, 0.41), (30, 1, 1, 0.41), (30, 3, 3, 0.19), (30, 12, 3, 0.061)],
)
def test_the_share_of_metadatas_size(brokers: int, partitions: int, replicas: int, share_max: float) -> None:
    """There are thousands of topics with names of 30 characters, and dozens of brokers; one partition and one replica
    is the minimum."""
    topics = [f"orders.of.one.of.regions.{number:05}" for number in range(3_000)]
    nodes = list(range(replicas))
    states = [
        m.MetadataResponse_MetadataResponsePartition(partition_index=index, replica_nodes=nodes, isr_nodes=nodes)
        for index in range(partitions)
    ]
    metadata = m.MetadataResponse(
        brokers=[
            m.MetadataResponse_MetadataResponseBroker(node_id=node, host=f"broker-{node}.example", port=9092)
            for node in range(brokers)
        ],
        cluster_id="b8tRS7h4TJ2Vt43Dp85v2A",
        topics=[
            m.MetadataResponse_MetadataResponseTopic(name=name, topic_id=Uuid.random(), partitions=states)
            for name in topics
        ],
    )
    listing = m.ListTopicsResponse(topic_listing=[m.ListTopicsResponse_TopicListing(name=name) for name in topics])
    assert len(encode(listing, 0)) < share_max * len(encode(metadata, 13))


@pytest.mark.checklist("X34", "X35", "U9", 244)
def test_version_1_gives_ids_in_pages(client: WireClient) -> None:
    found: list[m.ListTopicsResponse_TopicListing] = []
    after, pages = None, 0
    while True:
        page = client.call(m.ListTopicsRequest(list_internal=False, prefix="a.", after=after, limit=70), 1)
        assert len(page.topic_listing) <= 70
        found += page.topic_listing
        pages += 1
        if page.next is None:
            break
        after = page.next
    assert ([topic.name for topic in found], pages) == (NAMES, 5)
    metadata = client.call(m.MetadataRequest(topics=None), 13)
    ids = {topic.name: topic.topic_id for topic in metadata.topics}
    assert {topic.name: topic.topic_id for topic in found} == {name: ids[name] for name in NAMES}


def test_the_prefix_and_the_ends_of_a_listing(client: WireClient) -> None:
    def page(**chosen: object) -> tuple[list[str], str | None]:
        answer = client.call(m.ListTopicsRequest(**{"list_internal": True, **chosen}), 1)
        return names(answer), answer.next

    assert page(prefix="b.") == (["b.one", "b.two"], None)
    assert page(prefix="b.", limit=1) == (["b.one"], "b.one")
    assert page(prefix="b.", limit=1, after="b.one") == (["b.two"], None)
    assert page(prefix="b.", limit=2) == (["b.one", "b.two"], None)  # full and the last: no empty page follows
    assert page(prefix="b.", after="a") == (["b.one", "b.two"], None)
    assert page(prefix="b.", after="c") == ([], None)
    assert page(prefix="nothing") == ([], None)
    assert page(prefix="__")[0] == ["__consumer_offsets"]
    assert page(prefix="__", list_internal=False) == ([], None)
    assert len(page(limit=-1)[0]) == TOPICS + 3


def test_a_topic_that_comes_or_goes_between_pages(start_broker: StartBroker) -> None:
    """The cursor is a name, so it stays valid when its topic is deleted."""
    with WireClient(start_broker().port) as client:
        for name in ("t1", "t2", "t4"):
            create(client, name)
        first = client.call(m.ListTopicsRequest(limit=2), 1)
        assert (names(first), first.next) == (["t1", "t2"], "t2")
        client.call(
            m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest_DeleteTopicState(name="t2")], timeout_ms=9000), 6
        )
        create(client, "t3")
        assert names(client.call(m.ListTopicsRequest(limit=2, after=first.next), 1)) == ["t3", "t4"]


def create(client: WireClient, name: str) -> None:
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    assert client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0].error_code == 0

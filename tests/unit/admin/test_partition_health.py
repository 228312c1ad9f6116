"""Which partitions have problems, and how many there are. Only changed topics are counted again."""

from __future__ import annotations

import asyncio

import msgspec

from pybroker.broker.admin.partition_health import TOPICS_A_TURN, Conditions, PartitionCounts
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.config import BrokerConfig
from pybroker.native import Uuid

WELL = PartitionImage((1, 2, 3), 1, 4, (1, 2, 3), 1, 0)


class View:
    """A broker's state, which a test changes."""

    def __init__(self) -> None:
        self.image = ClusterImage.initial(1)

    def put(self, name: str, *states: PartitionImage, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        known = self.image.topics.get(name)
        topic_id = Uuid.random() if known is None else known.topic_id
        topic = TopicImage(name, topic_id, states, settings, 0, 0, -1)
        self.image = self.image.apply(ImageDelta(topics=(topic,)))


def changed(**fields: object) -> PartitionImage:
    return msgspec.structs.replace(WELL, **fields)  # type: ignore[arg-type]


def test_each_trouble_is_counted_and_named() -> None:
    view = View()
    conditions = Conditions(view, BrokerConfig({"min.insync.replicas": "2"}), 1)
    view.put("well", WELL, WELL)
    assert (conditions.counts().in_trouble, list(conditions.troubled())) == (False, [])
    view.put(
        "bad",
        changed(leader=-1, isr=(2,)),
        changed(isr=(1, 2)),
        changed(isr=(1,)),
        changed(replicas=(1, 2, 3, 4), adding_replicas=(4,)),
        changed(replicas=(3, 1, 2)),
        changed(replicas=(1,), isr=(1,)),
    )
    assert conditions.counts() == PartitionCounts(
        8, offline=1, under_replicated=3, under_min_isr=3, at_min_isr=1, not_preferred=2, reassigning=1
    )
    assert [(one.topic.name, one.partition) for one in conditions.troubled()] == [
        ("bad", number) for number in (0, 1, 2, 3, 5)
    ]
    assert conditions.led_here().partitions == 7
    loads = conditions.loads()
    assert (loads[1].leaders, loads[1].replicas, loads[4].replicas) == (7, 8, 1)


def test_settings_of_a_topic_and_of_the_broker_count() -> None:
    view, config = View(), BrokerConfig({"min.insync.replicas": "2"})
    conditions = Conditions(view, config, 9)
    view.put("two", changed(isr=(1, 2)))
    view.put("three", WELL, min_insync_replicas="4")
    assert (conditions.counts().under_min_isr, conditions.counts().at_min_isr) == (1, 1)
    config.set_dynamic(cluster={"min.insync.replicas": "3"}, broker={})
    assert (conditions.counts().under_min_isr, conditions.counts().at_min_isr) == (2, 0)
    assert conditions.led_here() == PartitionCounts()


def test_internal_topics_have_to_have_their_replicas_in_a_cluster() -> None:
    view = View()
    view.put("__consumer_offsets", changed(replicas=(1,), isr=(1,)))
    in_cluster = {"metadata.store": "zookeeper", "offsets.topic.replication.factor": "3", "min.insync.replicas": "1"}
    conditions = Conditions(view, BrokerConfig(in_cluster), 1)
    assert conditions.counts().too_few_replicas == 1
    assert [one.replicas_wanted for one in conditions.troubled()] == [3]
    view.put("__transaction_state", changed(replicas=(1,), isr=(1,)))
    assert conditions.counts().too_few_replicas == 2
    alone = Conditions(view, BrokerConfig({"offsets.topic.replication.factor": "3"}), 1)
    assert alone.counts().too_few_replicas == 0


async def test_sums_stay_right_while_topics_come_change_and_go() -> None:
    """The sums are also correct if the cluster changes while a count runs in steps."""
    view, config = View(), BrokerConfig({})
    conditions = Conditions(view, config, 1)

    async def as_new() -> None:
        fresh = Conditions(view, config, 1)
        assert (conditions.counts(), conditions.led_here()) == (fresh.counts(), fresh.led_here())
        assert conditions.loads() == fresh.loads()

    for number in range(2 * TOPICS_A_TURN):
        view.put(f"t{number}", WELL, changed(leader=2, isr=(2,)))
    counting = asyncio.create_task(conditions.catch_up())
    await asyncio.sleep(0)
    view.put("t0", changed(leader=-1), WELL)
    await as_new()
    await counting
    await as_new()
    view.image = view.image.apply(ImageDelta(removed=tuple(view.image.topics.values())[:100]))
    view.put("more", changed(isr=(1,)))
    await as_new()
    view.image = view.image.apply(ImageDelta(removed=tuple(view.image.topics.values())))
    await as_new()
    assert conditions.counts() == PartitionCounts()
    assert conditions.loads() == {}

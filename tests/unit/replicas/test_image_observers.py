"""Shrinks, expansions and elections are counted as this broker's view shows them."""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.replicas.image_observers import PartitionChangeMetrics
from pybroker.native import Uuid

STATE = PartitionImage((1, 2, 3), 1, 4, (1, 2, 3), 1, 0)


def image(*states: PartitionImage) -> ClusterImage:
    topic = TopicImage("t", Uuid.parse("AAAAAAAAAAAAAAAAAAAABA"), states, {}, 0, 0, -1)
    return ClusterImage.initial(1).apply(ImageDelta(topics=(topic,)))


async def follow(figures: PartitionChangeMetrics, *steps: PartitionImage, whole: bool = False) -> None:
    """Apply each step as a change of one partition. The first step is the initial state."""
    before = image(steps[0])
    for step in steps[1:]:
        after = image(step)
        await figures.apply_change(before, after, after if whole else ImageDelta(topics=tuple(after.topics.values())))
        before = after


async def test_a_replica_leaves_and_comes_back() -> None:
    for whole in (False, True):
        figures = PartitionChangeMetrics(1, lambda: False)
        shrunk = msgspec.structs.replace(STATE, isr=(1, 3), state_version=1)
        await follow(figures, STATE, shrunk, STATE, STATE, whole=whole)
        assert (figures.isr_shrinks, figures.isr_expands, figures.elections) == (1, 1, 0)


async def test_others_partitions_are_not_counted() -> None:
    figures = PartitionChangeMetrics(2, lambda: False)
    await follow(figures, STATE, msgspec.structs.replace(STATE, isr=(1, 3)))
    assert (figures.isr_shrinks, figures.isr_expands) == (0, 0)


async def test_the_controller_counts_elections() -> None:
    figures = PartitionChangeMetrics(9, lambda: True)
    clean = msgspec.structs.replace(STATE, leader=2, leader_epoch=5, isr=(2,))
    nobody = msgspec.structs.replace(clean, leader=-1, leader_epoch=6)
    unclean = msgspec.structs.replace(nobody, leader=3, leader_epoch=7, isr=(3,))
    await follow(figures, STATE, clean, nobody, unclean)
    assert (figures.elections, figures.unclean_elections) == (2, 1)
    other = PartitionChangeMetrics(9, lambda: False)
    await follow(other, STATE, clean)
    assert other.elections == 0

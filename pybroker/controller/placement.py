"""Where replicas go. Pure; the caller gives the starting point.

Leaders walk around the brokers from a start that the seed chooses; followers lie at a shift from their leader that
grows with each round, so that losing one broker spreads its work over all others (KIP-36 describes the result). With
racks known for all brokers, neighbours in the walk are of different racks.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.metadata.image import BrokerImage


def place(
    brokers: Sequence[BrokerImage], partitions: int, replication_factor: int, seed: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Replicas for `partitions` partitions, preferred leader first. Needs 1 ≤ replication_factor ≤ len(brokers)."""
    walk = _walk(brokers)
    count = len(walk)
    assert 1 <= replication_factor <= count
    if count == 1:
        return [(walk[0],)] * partitions
    start = seed % count
    shift = seed // count % (count - 1)
    placed: list[tuple[int, ...]] = []
    for partition in range(first_partition, first_partition + partitions):
        rounds = partition // count
        leader = (start + partition) % count
        replicas = [walk[leader]]
        for follower in range(replication_factor - 1):
            step = 1 + (shift + rounds + follower) % (count - 1)
            replicas.append(walk[(leader + step) % count])
        placed.append(tuple(replicas))
    return placed


def _walk(brokers: Sequence[BrokerImage]) -> list[int]:
    ordered = sorted(brokers, key=lambda broker: broker.broker_id)
    if any(broker.rack is None for broker in ordered):
        return [broker.broker_id for broker in ordered]
    racks: dict[str, list[int]] = {}
    for broker in ordered:
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    lanes = [racks[rack] for rack in sorted(racks)]
    walk: list[int] = []
    for depth in range(max(len(lane) for lane in lanes)):
        walk += [lane[depth] for lane in lanes if depth < len(lane)]
    return walk

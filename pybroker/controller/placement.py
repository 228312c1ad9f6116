"""Where replicas go. Pure; the caller gives the starting point.

Leaders walk around the brokers from a start that the seed chooses; followers lie at a shift from their leader that
grows with each round, so that losing one broker spreads its work over all others (KIP-36 describes the result). With
racks known for all brokers, neighbours in the walk are of different racks, and no rack gets a second replica of a
partition while another has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker.metadata.image import BrokerImage


def place(
    brokers: Sequence[BrokerImage], partitions: int, replication_factor: int, seed: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Replicas for `partitions` partitions, preferred leader first. Needs 1 ≤ replication_factor ≤ len(brokers)."""
    walk = _walk(brokers)
    racks = {} if any(one.rack is None for one in brokers) else {one.broker_id: one.rack or "" for one in brokers}
    count = len(walk)
    assert 1 <= replication_factor <= count
    if count == 1:
        return [(walk[0],)] * partitions
    start = seed % count
    shift = seed // count % (count - 1)
    placed: list[tuple[int, ...]] = []
    for partition in range(first_partition, first_partition + partitions):
        leader = (start + partition) % count
        turned = shift + partition // count
        followers = (walk[(leader + 1 + (turned + step) % (count - 1)) % count] for step in range(count - 1))
        placed.append((walk[leader], *_followers(walk[leader], list(followers), replication_factor - 1, racks)))
    return placed


def _followers(leader: int, candidates: list[int], wanted: int, racks: Mapping[int, str]) -> list[int]:
    if not racks:
        return candidates[:wanted]
    chosen: list[int] = []
    had = {racks[leader]}
    while len(chosen) < wanted:
        fresh = next((broker for broker in candidates if racks[broker] not in had), None)
        if fresh is None:
            # Each rack that can have one more has had its turn.
            had = set()
            continue
        candidates.remove(fresh)
        chosen.append(fresh)
        had.add(racks[fresh])
    return chosen


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

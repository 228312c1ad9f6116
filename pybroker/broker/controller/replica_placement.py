"""Placement of replicas. Pure; the caller chooses the starting point.

The leaders of consecutive partitions are consecutive brokers, starting at a broker that the seed determines. The
distance between a leader and its followers grows with each round over the brokers: when one broker fails, all other
brokers share its work (KIP-36 describes such a placement). If the racks of all brokers are known, consecutive brokers
are in different racks, and no rack gets a second replica of a partition before every rack has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker.broker.metadata.image import BrokerImage, ClusterImage
from pybroker.broker.metadata.znodes import DEFAULT_BROKER_CONFIG
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


def away(image: ClusterImage) -> frozenset[int]:
    """Return the brokers that are down and expected back: they have replicas or pending deletions. A drained broker is
    not expected back."""
    hosts = {
        replica for topic in image.topics.values() for partition in topic.partitions for replica in partition.replicas
    }
    owe = {broker_id for record in image.deletions.values() for broker_id in record.unconfirmed & record.brokers}
    return frozenset(hosts | owe) - image.brokers.keys()


def is_cordoned(image: ClusterImage, broker: BrokerImage) -> bool:
    """Return whether `cordoned.log.dirs` names all log directories of the broker (KIP-1066)."""
    listed = broker.cordoned
    for name in (str(broker.broker_id), DEFAULT_BROKER_CONFIG):
        stored = image.broker_configs.get(name)
        if stored is not None and (text := stored.config.get("cordoned.log.dirs")) is not None:
            listed = tuple(path.strip() for path in text.split(","))
            break
    return "*" in listed or (bool(broker.log_dirs) and set(broker.log_dirs) <= set(listed))


def place_new(
    image: ClusterImage, partitions: int, replication_factor: int, seed: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Place partitions on live brokers, like `place`. If there are too few live brokers, brokers that are down get the
    remaining replicas, and copy the logs when they return. Kafka with KRaft does the same, because clients must be able
    to create topics again while a broker is down. Brokers with only cordoned log directories get no replicas. Raises
    KafkaError INVALID_REPLICATION_FACTOR if the cluster has too few brokers."""
    live = [broker for broker in image.brokers.values() if not is_cordoned(image, broker)]
    missing = replication_factor - len(live)
    if missing <= 0:
        return place(live, partitions, replication_factor, seed, first_partition)
    down = sorted(away(image))
    if missing > len(down):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} is larger than the number of available brokers, "
            f"{len(live) + len(down)}.",
        )
    placed = place(live, partitions, len(live), seed, first_partition)
    return [
        (*assigned, *(down[(seed + index + step) % len(down)] for step in range(missing)))
        for index, assigned in enumerate(placed, first_partition)
    ]


def place(
    brokers: Sequence[BrokerImage], partitions: int, replication_factor: int, seed: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Return replicas for `partitions` partitions, preferred leader first. Needs 1 ≤ replication_factor ≤ len(brokers).
    """
    walk = _walk(brokers)
    racks = (
        {}
        if any(broker.rack is None for broker in brokers)
        else {broker.broker_id: broker.rack or "" for broker in brokers}
    )
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


def _followers(leader: int, candidates: list[int], count: int, racks: Mapping[int, str]) -> list[int]:
    if not racks:
        return candidates[:count]
    chosen: list[int] = []
    had = {racks[leader]}
    while len(chosen) < count:
        fresh = next((broker for broker in candidates if racks[broker] not in had), None)
        if fresh is None:
            # Each rack with a free broker now has a replica, so begin the next round.
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

"""Deltas and images as records of the metadata log: nothing is lost, the bytes never change, and records that do not
fit are refused."""

from __future__ import annotations

import msgspec
import pytest

from pybroker.broker.metadata.acl_nodes import AclBinding, AclNode
from pybroker.broker.metadata.deletion_records import DELETING, STAGED, DeletionRecord, TransactionOutcome
from pybroker.broker.metadata.feature_levels import FeaturesImage
from pybroker.broker.metadata.image import (
    BrokerImage,
    ClusterImage,
    ConfigImage,
    ImageDelta,
    PartitionImage,
    RequestOutcome,
    TopicImage,
    with_changed_states,
)
from pybroker.broker.metadata.ingest_records import COMMITTED, OPEN, IngestedPartition, IngestRecord
from pybroker.broker.metadata.lineage import TopicEvent, TopicLineage
from pybroker.broker.metadata.records.deltas import from_records, to_records
from pybroker.broker.metadata.records.frames import WRITTEN, UnreadableRecordError, encode_record, split_frame
from pybroker.broker.metadata.records.own_facts import ELEMENTS_MAX
from pybroker.broker.metadata.records.snapshots import PIECE_BYTES_MAX, image_from_records, image_to_records
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.metadata.znodes import Endpoint, LogEnd, RunningNode, StagedNode
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.unit.metadata.random_images import CREDENTIAL, RandomDeltas

SEEDS = range(40)
STEPS = 6
EMPTY = ClusterImage.initial(3)

# --- golden bytes: one delta for each kind of record -----------------------------------------------------------------

A, B = (Uuid.from_bytes(bytes([first]) * 16) for first in (0xAA, 0xBB))
STATE = PartitionImage((1, 2, 3), 1, 5, (1, 2, 3), 9, 7)
TOPIC = TopicImage("t", A, (STATE,), {"retention.ms": "1"}, 1000, 0, 0)
ACL = AclBinding(2, 3, "t", "User:a", "*", 3, 3)
TOKEN = DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 3, 2, 4)
BROKER = BrokerImage(1, 77, (Endpoint("PLAIN", "host", 9092, "PLAINTEXT"),), "r", True, ("/d",), ("/e",))
LINEAGE = TopicLineage((TopicEvent("create", 1000, "User:a", "t"),), 1, ((0, 0),), (8,))
DELETION = DeletionRecord(
    "t", B, DELETING, 1, 2, "User:a", 3, {0: (1, 2)}, {"k": "v"}, 5,
    offsets=(
        {
            "group": "g", "partition": 0, "offset": 6, "leader_epoch": 1, "metadata": "m", "commit_timestamp_ms": 2,
            "expire_timestamp_ms": None, "log_offset": 9,
        },
    ),
    ends=((0, 6),), lineage=LINEAGE, successor=A, isr=((1, 2),), missing=(2,), departed={0: (3,)},
    outcomes=(TransactionOutcome(1000, 1, 2, True, 2, (0,)),),
)  # fmt: skip
INGEST = IngestRecord(A, "i", 4, 1, OPEN, 60_000, 1000, {"k": "v"})
BEFORE = EMPTY.apply(
    ImageDelta(
        topics=(TOPIC,),
        brokers=(BROKER,),
        acls={ACL.pattern: AclNode((ACL,), 0)},
        users={"u": ConfigImage({"SCRAM-SHA-256": CREDENTIAL}, 0)},
        deletions=(DELETION,),
        features=FeaturesImage({"share.version": 1}, 0),
    )
)


def changed(**fields: object) -> TopicImage:
    """Return the topic with another state."""
    return msgspec.structs.replace(TOPIC, partitions=(msgspec.structs.replace(STATE, **fields),))


SUSPECT = msgspec.structs.replace(STATE, suspect=(LogEnd(3, 4, -1),), young=True, offline=(1,), removing_replicas=(2,))
GOLDEN: dict[str, tuple[ImageDelta, list[str]]] = {
    "a new topic": (
        ImageDelta(
            topics=(msgspec.structs.replace(TOPIC, name="n", topic_id=B, lineage=LINEAGE, departed={0: {4: 3}}),)
        ),
        [
            "010200026ebbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb00",
            "01030000000000bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb04000000010000000200000003040000000100000002000000"
            "03010100000001000000050000000701904e0400000009",
            "01040002026e0d726574656e74696f6e2e6d73023100",
            "01140001914e6402bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb00000000000003e800000000000000000207637265617465"
            "00000000000003e807557365723a61027400000000010200000000000000000002000000000000000800020000000002"
            "0000000400000003000000",
        ],
    ),
    "an ISR change": (
        ImageDelta(topics=(changed(isr=(1, 2), state_version=8),)),
        [
            "01050000000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa010009030000000100000002",
        ],
    ),
    "another leader": (
        ImageDelta(topics=(changed(leader=2, leader_epoch=6, isr=(2,), state_version=8, controller_epoch=10),)),
        [
            "01050000000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0300050200000002010400000002904e040000000a",
        ],
    ),
    "fields without a record": (
        ImageDelta(
            topics=(changed(leader_epoch=9, state_version=9, suspect=(LogEnd(3, 4, 5),), young=True, offline=(1,)),)
        ),
        [
            "01050000000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa06010400000001914e12020000000300000004000000000000"
            "000500924e0101934e050200000001944e0400000009954e0400000009",
        ],
    ),
    "a reassignment": (
        ImageDelta(topics=(changed(replicas=(4, 1), adding_replicas=(4,), removing_replicas=(1,), state_version=8),)),
        [
            "01050000000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0302090300000004000000010305020000000104050200000004",
        ],
    ),
    "a new partition": (
        ImageDelta(topics=(msgspec.structs.replace(TOPIC, partitions=(STATE, SUSPECT)),)),
        [
            "01030000000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa04000000010000000200000003040000000100000002000000"
            "0302000000020100000001000000050000000704904e0400000009914e12020000000300000004ffffffffffffffff00"
            "924e0101934e050200000001",
        ],
    ),
    "a topic's settings": (
        ImageDelta(topics=(msgspec.structs.replace(TOPIC, config={"k": "v"}, config_version=1),)),
        [
            "010400020274026b027600",
            "0104000202740d726574656e74696f6e2e6d730000",
            "01140001914e2b02aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000000000003e8000000000000000101000000000101000100",
        ],
    ),
    "a removed topic": (
        ImageDelta(removed=(TOPIC,)),
        [
            "010900aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00",
        ],
    ),
    "a broker": (
        ImageDelta(brokers=(BROKER,), broker_epochs={1: 77}),
        [
            "0100000000000100000000000000000000000000000000000000000000004d0206504c41494e05686f73742384000000"
            "0102720003904e0101914e0402032f64924e0402032f65",
            "01140001904e0e0200000001000000000000004d00",
        ],
    ),
    "a broker is lost": (
        ImageDelta(lost_brokers=(1,)),
        [
            "01110100000001000000000000004d01000101",
        ],
    ),
    "a broker leaves": (
        ImageDelta(leaving=(1,)),
        [
            "01110100000001000000000000004d01010101",
        ],
    ),
    "a broker is forgotten": (
        ImageDelta(forgotten_brokers=(1,)),
        [
            "01010000000001000000000000004d00",
        ],
    ),
    "a broker's run": (
        ImageDelta(running={1: RunningNode("boot", "os", ("d",), ("e",), True, True, True)}),
        [
            "01140001a44e17020000000105626f6f74036f7302026402026501010100",
        ],
    ),
    "a mark of staged data": (
        ImageDelta(staged={1: {A: StagedNode("t", 1, 2, "boot", 3, 4, True)}}),
        [
            "01140001a54e3e0200000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa02740000000000000001000000000000000205626f"
            "6f74000000000000000300000000000000040100",
        ],
    ),
    "staged data is removed": (
        ImageDelta(unstaged=((1, A),)),
        [
            "01140001a64e160200000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00",
        ],
    ),
    "producer ids": (
        ImageDelta(next_producer_id=1_000),
        [
            "010f00ffffffffffffffffffffffff00000000000003e800",
        ],
    ),
    "outcomes of requests": (
        ImageDelta(outcomes={A: RequestOutcome(5, "CreateTopics", b"r")}, forgotten_outcomes=(B,)),
        [
            "01140002a74e2902aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000000000000050d437265617465546f70696373027200a8"
            "4e1102bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        ],
    ),
    "settings of brokers": (
        ImageDelta(broker_configs={"1": ConfigImage({"k": "v"}, 2)}),
        [
            "010400040231026b027600",
            "01140001924e09020402310000000200",
        ],
    ),
    "settings of groups and subscriptions": (
        ImageDelta(group_configs={"g": ConfigImage({"k": "v"}, 0)}, client_metrics={"s": ConfigImage({"k": "v"}, 0)}),
        [
            "010400200267026b027600",
            "010400100273026b027600",
            "01140001924e110320026700000000001002730000000000",
        ],
    ),
    "a user": (
        ImageDelta(users={"v": ConfigImage({"SCRAM-SHA-512": CREDENTIAL, "other": "x"}, 0)}),
        [
            "010b000276020573616c740773746f726564077365727665720000100000",
            "01140002924e09024002760000000000934e0d02400276066f74686572027800",
        ],
    ),
    "a credential is removed": (
        ImageDelta(users={"u": ConfigImage({"producer_byte_rate": "1024"}, 1)}),
        [
            "010e000205757365720275001370726f64756365725f627974655f7261746540900000000000000000",
            "01160002750100",
            "01140001924e09024002750000000100",
        ],
    ),
    "quotas": (
        ImageDelta(quotas={"/config/clients/c": ConfigImage({"request_percentage": "1.50"}, 0)}),
        [
            "010e00020a636c69656e742d696402630013726571756573745f70657263656e746167653ff80000000000000001904e"
            "0505312e3530",
            "01140001924e190241122f636f6e6669672f636c69656e74732f630000000000",
        ],
    ),
    "ACLs": (
        ImageDelta(acls={(2, 4, "p"): AclNode((ACL._replace(pattern_type=4, name="p"),), 0)}),
        [
            "0112004df1c156f3d495f577f7d1af61f460f20202700407557365723a61022a030300",
            "01140001944e0a02020402700000000000",
        ],
    ),
    "an ACL is removed": (
        ImageDelta(acls={ACL.pattern: AclNode((), 1)}),
        [
            "01130024b4ff498944edced285604d3de3d1f203904e0102914e0103924e020274",
            "01140001944e0a02020302740000000100",
        ],
    ),
    "tokens": (
        ImageDelta(tokens={"id": TOKEN, "gone": None}),
        [
            "010a0007557365723a6107557365723a620207557365723a630000000000000001000000000000000300000000000000"
            "0203696401904e0400000004",
            "011a0005676f6e6500",
        ],
    ),
    "feature levels": (
        ImageDelta(features=FeaturesImage({"group.version": 1}, 1)),
        [
            "010c000e67726f75702e76657273696f6e000100",
            "010c000e73686172652e76657273696f6e000001904e0101",
            "01140001954e0400000001",
        ],
    ),
    "a deletion": (
        ImageDelta(deletions=(msgspec.structs.replace(DELETION, topic_id=A),), floors={"t": 5}, leftovers={"t": 1}),
        [
            "01140004964e080202740000000500974e0802027400000001009a4ed701020274aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aa0964656c6574696e670000000000000001000000000000000207557365723a61000000000000000302026b02760000"
            "0000050764656c657465020763726561746500000000000003e807557365723a61027400000000010200000000000000"
            "000002000000000000000800aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0001ffffffffffffffff00000000000000000000"
            "000000000000000200000002000200000000000003e8000100000002010002020000000000000000000101ffffffffff"
            "ffffff00009b4e7602aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0200000000030000000100000002000200000000000000"
            "000000000000000006000203000000010000000202000000000200000003000202670000000000000000000000060000"
            "0001026d0000000000000002ffffffffffffffff00000000000000090000",
        ],
    ),
    "a deletion goes on": (
        ImageDelta(deletions=(msgspec.structs.replace(DELETION, state=STAGED, missing=None),)),
        [
            "011400019a4ed101020274bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb077374616765640000000000000001000000000000"
            "000207557365723a61000000000000000302026b027600000000050764656c6574650207637265617465000000000000"
            "03e807557365723a61027400000000010200000000000000000002000000000000000800aaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaa0001ffffffffffffffff000000000000000000000000000000000000000200000000000003e8000100000002"
            "010002020000000000000000000101ffffffffffffffff0100",
        ],
    ),
    "a deletion is forgotten": (
        ImageDelta(forgotten_deletions=(B,), dropped_orders=("o",), raised=True),
        [
            "01140003984e0302026f994e01019c4e1102bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        ],
    ),
    "ingests": (
        ImageDelta(
            ingests=(INGEST,),
            committed_ingests=(
                msgspec.structs.replace(
                    INGEST, state=COMMITTED, committed_ms=2, partitions={0: IngestedPartition(1, 2, 3, 4)}, plan=1
                ),
            ),
            ended_ingests=((A, "i", 4),),
            forgotten_ingests=((A, "i", True),),
            made_ingest_folders={"/f": A},
            removed_ingest_folders=("/g",),
        ),
        [
            "011400069d4e5802aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0269000000000000000400000001056f70656e0000000000"
            "00ea6000000000000003e802026b0276000000000000000000010000000000000000000000000000000000000000009e"
            "4e820102aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa02690000000000000004000000010a636f6d6d697474656400000000"
            "0000ea6000000000000003e802026b027600000000000000000202000000000000000000000001000000000000000200"
            "000000000000030000000000000004000000000000000001000000000000000000000000009f4e1c02aaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaaaa0269000000000000000400a04e1502aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa02690100a14e1502"
            "032f66aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00a24e0402032f67",
        ],
    ),
}


def sent(before: ClusterImage, delta: ImageDelta) -> ImageDelta:
    """Return the delta for readers that know `before`, without topics in which nothing has changed."""
    form = with_changed_states(before, delta)
    return by_name(msgspec.structs.replace(form, states=tuple(states for states in form.states if states.partitions)))


def by_name(delta: ImageDelta) -> ImageDelta:
    """Return the delta with its topics in the order of their names."""
    topics = tuple(sorted(delta.topics, key=lambda topic: topic.name))
    states = tuple(sorted(delta.states, key=lambda states: states.name))
    return msgspec.structs.replace(delta, topics=topics, states=states)


def read(before: ClusterImage, frames: list[bytes]) -> ImageDelta:
    return by_name(from_records(before, frames))


@pytest.mark.parametrize("seed", SEEDS)
def test_deltas_and_images_survive_their_records(seed: int) -> None:
    maker, image = RandomDeltas(seed), EMPTY
    for _ in range(STEPS):
        delta = maker.delta(image)
        expected = sent(image, delta)
        found = read(image, to_records(image, delta))
        assert found == expected
        assert read(image, to_records(image, expected)) == expected
        assert image.apply(found) == image.apply(delta)
        image = maker.details(image.apply(delta))
        assert image_from_records(image_to_records(image)) == image


@pytest.mark.parametrize("field", ImageDelta.__struct_fields__)
def test_each_field_of_a_delta_has_records(field: str) -> None:
    """A new field fails here until `RandomDeltas` makes values of it and records carry them."""
    maker = RandomDeltas(1)
    image = maker.image()
    made = "topics" if field == "states" else field
    for _ in range(100):
        delta = sent(image, ImageDelta(**{made: maker.fields[made](image)}))
        if getattr(delta, field) != getattr(ImageDelta(), field):
            frames = to_records(image, delta)
            assert frames
            assert read(image, frames) == delta
            return
    raise AssertionError(f"no value of {field} was made")


def test_each_field_of_an_image_is_in_a_snapshot() -> None:
    """A new field fails here until `RandomDeltas` sets it and snapshots have it."""
    for seed in range(100):
        image = RandomDeltas(seed).image()
        if all(getattr(image, field) != getattr(EMPTY, field) for field in ClusterImage.__struct_fields__):
            assert image_from_records(image_to_records(image)) == image
            return
    raise AssertionError("a field was never set")


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_stay_as_they_are(name: str) -> None:
    """A log outlives the release that wrote it."""
    delta, golden = GOLDEN[name]
    frames = [bytes.fromhex(frame) for frame in golden]
    assert [frame.hex() for frame in to_records(BEFORE, delta)] == golden
    assert read(BEFORE, frames) == sent(BEFORE, delta)


def test_each_record_has_golden_bytes() -> None:
    frames = [bytes.fromhex(frame) for _, golden in GOLDEN.values() for frame in golden]
    assert {split_frame(frame).api_key for frame in frames} == {api_key for api_key, _ in WRITTEN.values()}


def test_an_isr_change_is_one_small_record_however_large_its_topic_is() -> None:
    topic = msgspec.structs.replace(TOPIC, partitions=(STATE,) * 1_000)
    image = EMPTY.apply(ImageDelta(topics=(topic,)))
    after = msgspec.structs.replace(STATE, isr=(1,), state_version=8)
    delta = ImageDelta(topics=(msgspec.structs.replace(topic, partitions=(*topic.partitions[:-1], after)),))
    (frame,) = to_records(image, delta)
    assert len(frame) < 40


def test_records_of_large_deltas_and_images_are_bounded() -> None:
    count = 3 * ELEMENTS_MAX
    partitions = dict.fromkeys(range(count), (1, 2))
    deletion = msgspec.structs.replace(
        DELETION, partitions=partitions, isr=((1,),) * count, offsets=DELETION.offsets * 7
    )
    image = EMPTY.apply(ImageDelta(topics=(msgspec.structs.replace(TOPIC, partitions=(STATE,) * count),)))
    delta = ImageDelta(deletions=(deletion,), floors={f"t{index}": index for index in range(count)})
    frames = to_records(image, delta)
    assert len(frames) > 3
    assert max(map(len, frames)) < 64 * 1024
    assert read(image, frames) == delta
    pieces = list(image_to_records(image.apply(delta)))
    assert len(pieces) > 1
    assert max(sum(map(len, piece)) for piece in pieces) < PIECE_BYTES_MAX + 64 * 1024
    assert image_from_records(pieces) == image.apply(delta)


def test_equal_states_of_a_read_image_share_one_object() -> None:
    image = EMPTY.apply(ImageDelta(topics=(msgspec.structs.replace(TOPIC, partitions=(STATE, SUSPECT, STATE)),)))
    first, other, second = image_from_records(image_to_records(image)).topics["t"].partitions
    assert first is second
    assert first != other


UNREADABLE = {
    "nothing": b"",
    "a frame version of the future": b"\x02\x02\x00",
    "a type of the future": b"\x01\x63\x00",
    "a version of the future": b"\x01\x03\x63" + bytes(40),
    "a cut": bytes.fromhex(GOLDEN["an ISR change"][1][0])[:-1],
    "a cut partition": bytes.fromhex(GOLDEN["a new partition"][1][0])[:15],
    "more than a record": bytes.fromhex(GOLDEN["an ISR change"][1][0]) + b"\0",
    "a change of an unknown topic": encode_record(m.PartitionChangeRecord(topic_id=B)),
    "a change of an unknown partition": encode_record(m.PartitionChangeRecord(topic_id=A, partition_id=1)),
    "a gap in the partitions": encode_record(m.PartitionRecord(topic_id=A, partition_id=2)),
    "an unknown topic is removed": encode_record(m.RemoveTopicRecord(B)),
    "a setting of an unknown topic": encode_record(m.ConfigRecord(2, "x", "k", "v")),
    "a setting of an unknown kind": encode_record(m.ConfigRecord(99, "x", "k", "v")),
    "an unknown ACL is removed": encode_record(m.RemoveAccessControlEntryRecord(A, 2, 3, "t")),
    "an unknown quota": encode_record(m.ClientQuotaRecord(key="x")),
    "an unknown mechanism": encode_record(m.RemoveUserScramCredentialRecord("u", 9)),
    "an unfenced broker": encode_record(m.BrokerRegistrationChangeRecord(1, 77, -1)),
    "a deletion without partitions": encode_record(
        m.NoOpRecord(deletions=[m.NoOpRecord_Deletion(topic_name="t", topic_id=A, same_data=True)])
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(UnreadableRecordError):
        from_records(BEFORE, [UNREADABLE[name]])


def test_a_snapshot_without_its_first_record_is_refused() -> None:
    with pytest.raises(UnreadableRecordError, match="cluster"):
        image_from_records([to_records(EMPTY, ImageDelta(topics=(TOPIC,)))])

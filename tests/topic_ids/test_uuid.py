"""The class Uuid of the KIPs, with their examples."""

from __future__ import annotations

import base64
import pickle
import uuid

import pytest

import pybroker
from pybroker.native import Uuid

EXAMPLE = "b8tRS7h4TJ2Vt43Dp85v2A"  # KIP-516's topic znode
EXAMPLE_HEX = "6fcb514bb8784c9d95b78dc3a7ce6fd8"
METADATA_FILE_EXAMPLE = "46bdb63f9e8d4a38bf7bee4eb2a794e4"  # KIP-516's partition.metadata
LAYOUT_EXAMPLE = "24cc4332-f7de-45a3-b24e-33d61aa0d16c"  # KIP-516's directory by id
CLUSTER_EXAMPLE = "vPeOCWypqUOSepEvx0cbog"  # KIP-78's cluster id


@pytest.mark.checklist(13, 27)
def test_the_public_name() -> None:
    assert pybroker.Uuid is Uuid


@pytest.mark.checklist(14)
def test_it_cannot_be_changed() -> None:
    made = Uuid.parse(EXAMPLE)
    for name in ("bytes", "hex", "most_significant_bits", "anything"):
        with pytest.raises(AttributeError):
            setattr(made, name, 1)
    assert len(made.bytes) == 16


@pytest.mark.checklist(11, 15, 18, 36, "D26", "A23")
def test_random_ids_are_of_version_4_and_variant_2_and_can_be_typed_as_an_argument() -> None:
    made = [Uuid.random() for _ in range(20_000)]
    assert len(set(made)) == len(made)
    assert {one.hex[12] for one in made} == {"4"}
    assert {one.hex[16] for one in made} == set("89ab")
    assert not any(str(one).startswith("-") for one in made)
    # All other bits are random: each is seen in both states.
    bits = [int(one.hex, 16) for one in made]
    ever, always = 0, ~0
    for value in bits:
        ever, always = ever | value, always & value
    assert ever & ~always == (2**128 - 1) & ~(0xF << 76) & ~(0x3 << 62)


@pytest.mark.checklist(16, 30, 34, 33, 35)
def test_the_two_reserved_ids() -> None:
    assert Uuid.ZERO.hex == "0" * 32
    assert Uuid.METADATA.hex == "0" * 31 + "1"
    assert Uuid.parse("00000000-0000-0000-0000-000000000001") == Uuid.METADATA
    assert Uuid.METADATA != Uuid.ZERO
    assert (str(Uuid.ZERO), str(Uuid.METADATA)) == ("A" * 22, "A" * 21 + "Q")
    assert (bool(Uuid.ZERO), bool(Uuid.METADATA)) == (False, True)


@pytest.mark.checklist(17, 19, 20, "X24")
def test_it_is_made_of_two_longs_whatever_they_are() -> None:
    made = Uuid(0x6FCB514BB8784C9D, 0x95B78DC3A7CE6FD8 - 2**64)
    assert str(made) == EXAMPLE
    assert (made.most_significant_bits, made.least_significant_bits) == (0x6FCB514BB8784C9D, 0x95B78DC3A7CE6FD8 - 2**64)
    for upper, lower in [(0, 0), (-1, -1), (2**63 - 1, -(2**63)), (1, 2)]:  # none of them of version 4
        made = Uuid(upper, lower)
        assert (made.most_significant_bits, made.least_significant_bits) == (upper, lower)


@pytest.mark.checklist(21, 22)
def test_equality_order_and_hash() -> None:
    one, same, other = Uuid.parse(EXAMPLE), Uuid.parse(EXAMPLE_HEX), Uuid.random()
    assert (one == same, hash(one) == hash(same), len({one, same})) == (True, True, 1)
    assert one != other
    assert one != EXAMPLE
    assert one != uuid.UUID(EXAMPLE_HEX)
    assert pickle.loads(pickle.dumps(one)) == one
    made = sorted([Uuid.random() for _ in range(100)] + [Uuid.ZERO])
    assert [each.bytes for each in made] == sorted(each.bytes for each in made)


@pytest.mark.checklist(23, 24, 26, 32)
def test_its_text_is_base64_for_urls_without_padding() -> None:
    assert str(Uuid.parse(EXAMPLE_HEX)) == EXAMPLE
    assert Uuid.parse(EXAMPLE).hex == EXAMPLE_HEX
    for made in [Uuid.random() for _ in range(1000)] + [Uuid.ZERO, Uuid.METADATA, Uuid(-1, -1)]:
        text = str(made)
        assert text == base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")
        assert Uuid.parse(text) == made
    assert EXAMPLE in repr(Uuid.parse(EXAMPLE))


@pytest.mark.checklist("X8", "X30", 25)
def test_all_notations_of_the_documents_are_read() -> None:
    assert str(Uuid.parse(METADATA_FILE_EXAMPLE)) == "Rr22P56NSji_e-5OsqeU5A"
    assert Uuid.parse(LAYOUT_EXAMPLE) == Uuid.parse(LAYOUT_EXAMPLE.replace("-", "").upper())
    assert Uuid.parse(LAYOUT_EXAMPLE.upper()).hex == LAYOUT_EXAMPLE.replace("-", "")
    # KIP-78's example has 128 bits but no known version: any bits are a valid id.
    assert Uuid.parse(CLUSTER_EXAMPLE).hex[12] == "a"


@pytest.mark.checklist(25)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        EXAMPLE[:-1],
        EXAMPLE + "A",
        EXAMPLE[:-1] + "B",  # no id has these bits
        EXAMPLE.replace("b8", "b+"),
        EXAMPLE.replace("b8", "b/"),
        EXAMPLE[:-1] + " ",
        f" {EXAMPLE}",
        EXAMPLE_HEX[:-1],
        EXAMPLE_HEX + "0",
        EXAMPLE_HEX[:-1] + "g",
        LAYOUT_EXAMPLE.replace("-", "_"),
        LAYOUT_EXAMPLE.replace("24cc4332-f7de", "24cc433-2f7de"),
        "é" * 11,
        "٣" * 16,
        "x" * 100_000,
    ],
)
def test_anything_else_is_refused_in_one_clear_line(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid: expected 22 base64 characters, 32 hex digits") as refused:
        Uuid.parse(text)
    assert text[:30] in str(refused.value)
    assert len(str(refused.value)) < 300

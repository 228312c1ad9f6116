"""Every seed of every target, and its mutations, end in a result or in a declared refusal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

SEEDS = Path(__file__).parent / "seeds"
MUTATIONS = 300
TELLING = b"\x00\x01\x7f\x80\xff\"\\;={}[]:.\n"


def mutated(seed: bytes, numbers: random.Random) -> bytes:
    """Return the seed with one to four changes: a byte is replaced, inserted or removed, the end is cut off, or a part
    is repeated."""
    data = bytearray(seed)
    for _ in range(numbers.randint(1, 4)):
        at = numbers.randrange(len(data) + 1)
        match numbers.randrange(4):
            case 0:
                data[at : at + 1] = bytes([numbers.choice(TELLING)])
            case 1:
                data[at:at] = bytes([numbers.choice(TELLING)])
            case 2:
                del data[at : at + numbers.randint(1, 8)]
            case _:
                data[at:at] = data[at : at + numbers.randint(1, 40)]
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds(target: str) -> None:
    files = sorted((SEEDS / target).iterdir())
    assert files
    numbers = random.Random(target)
    for file in files:
        seed = file.read_bytes()
        TARGETS[target](seed)
        for _ in range(MUTATIONS):
            TARGETS[target](mutated(seed, numbers))

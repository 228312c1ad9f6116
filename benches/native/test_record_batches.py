"""Record batches: CRC-32C, encoding, and the checks of Produce."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.native import build_batch, crc32c, validate_batch

SIZES = [100, 16 * 1024, 1024 * 1024]
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("size", SIZES)
def test_crc32c(benchmark: Any, size: int) -> None:
    """The CRC of this many bytes in one call."""
    data = bytes(number % 251 for number in range(size))
    benchmark.group = "crc32c"
    benchmark.extra_info["bytes"] = size
    benchmark(crc32c, data)


@pytest.mark.parametrize("count", [1, 100, 1000])
def test_a_batch_is_checked(benchmark: Any, count: int) -> None:
    """Structure, CRC and every record of an uncompressed batch of 1 KiB records."""
    batch = build_batch([(None, b"v" * 1024)] * count, NOW_MS)
    benchmark.group = "validate a batch"
    benchmark.extra_info["bytes"] = len(batch)
    assert benchmark(validate_batch, batch, NOW_MS) == count


@pytest.mark.parametrize("count", [1, 100])
def test_a_batch_is_made(benchmark: Any, count: int) -> None:
    """One batch from Python's keys and values, as for the offsets topic."""
    benchmark.group = "build a batch"
    benchmark(build_batch, [(b"key", b"v" * 100)] * count, NOW_MS)

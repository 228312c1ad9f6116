"""Kafka's own tool prints the records of pybroker's metadata log."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.deltas import to_records
from pybroker.broker.metadata.records.frames import WRITTEN, decode_record
from pybroker.broker.metadata.records.partition_records import SAME_LEADER
from pybroker.broker.metadata.records.snapshots import image_to_records
from pybroker.native import build_batch
from tests.support.kafka_tools import run_tool
from tests.unit.metadata.random_images import RandomDeltas


def test_the_dump_tool_prints_every_record(tmp_path: Path) -> None:
    """The decoder prints "Error at …, skipping" for a record that it cannot read."""
    maker, image = RandomDeltas(3), ClusterImage.initial(3)
    frames: list[bytes] = []
    for _ in range(20):
        delta = maker.delta(image, share=0.9)
        frames += to_records(image, delta)
        image = image.apply(delta)
    frames += (frame for piece in image_to_records(image) for frame in piece)
    written = [decode_record(frame) for frame in frames]
    assert {name for name, _ in written} == set(WRITTEN)
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(build_batch([(None, frame) for frame in frames], 0))

    dump = run_tool("kafka-dump-log", ["--cluster-metadata-decoder", "--files", str(segment)])

    assert "Error at" not in dump
    assert "isvalid: false" not in dump
    printed = [json.loads(text) for text in re.findall(r"payload: (.*)$", dump, re.MULTILINE)]
    assert [record["type"] for record in printed] == [_printed_name(name) for name, _ in written]
    assert [record["version"] for record in printed] == [WRITTEN[name][1] for name, _ in written]
    for text, (name, record) in zip(printed, written, strict=True):
        if name in ("PartitionRecord", "PartitionChangeRecord"):
            data = text["data"]
            assert (data.get("isr"), data.get("leader", SAME_LEADER)) == (record.isr, record.leader)


def _printed_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()

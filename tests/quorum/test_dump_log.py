"""Kafka's own tool reads the metadata log and its snapshots."""

from __future__ import annotations

import re
from pathlib import Path

from tests.quorum.kit import Quorum
from tests.support.kafka_tools import run_tool


async def test_dump_tool_prints_log_and_snapshot(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 3) as quorum:
        leader, epoch = await quorum.leader()
        # A NoOpRecord: frame version 1, type 20, version 0, no fields.
        record = bytes([1, 20, 0, 0]).decode()
        for _ in range(5):
            assert "offset" in await leader.ask("propose", epoch=epoch, records=[record, record])
        assert (await leader.ask("snapshot"))["written"]
        await quorum.settled()
        await quorum.stop()
    log = dump(leader.directory / "00000000000000000000.log")
    assert log.count("NO_OP_RECORD") == 10
    assert re.search(rf'LeaderChange: \{{.*"leaderId":{leader.node_id}.*"voters":\[.*"voterId":3', log)
    assert re.search(r'KRaftVersion \{.*"kRaftVersion":1', log)
    assert re.search(r'KRaftVoters \{.*"voterId":1.*"voterId":2.*"voterId":3', log)
    bootstrap, snapshot = sorted(leader.directory.glob("*.checkpoint"))
    for path, records in ((bootstrap, 0), (snapshot, 10)):
        printed = dump(path)
        assert printed.count("NO_OP_RECORD") == records
        assert "SnapshotHeader" in printed
        assert "SnapshotFooter" in printed
        assert re.search(r'KRaftVoters \{.*"voterId":1', printed)


def dump(path: Path) -> str:
    printed = run_tool("kafka-dump-log", ["--files", str(path), "--cluster-metadata-decoder"])
    assert "isvalid: false" not in printed
    assert "Could not" not in printed
    assert "rror" not in printed
    return printed

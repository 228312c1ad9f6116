"""Immediate deletion by KIP-516: a broker that does not know of a deletion never serves a wrong topic, and removes the
old replica when it learns of the next one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pybroker.native import Uuid
from tests.native.harness import Client, listening, native, order, publish
from tests.native.test_native_broker import INCONSISTENT_TOPIC_ID, NONE, UNKNOWN_TOPIC_ID, fetch, produce

OLD_EPOCH, NEW_EPOCH = 4, 5


@pytest.mark.checklist(7, 92, 108, 127, 128, "R10")
def test_a_broker_that_missed_the_deletion(tmp_path: Path) -> None:
    old, new = Uuid.random(), Uuid.random()
    with native([tmp_path], listen=False) as broker:
        port = listening(broker)
        assert broker.partitions.apply([order(old, epoch=OLD_EPOCH)]) == [NONE]
        publish(broker, port, old, "t", 1, epoch=OLD_EPOCH)
        with closing(Client(port)) as client:
            assert produce(client, old, [b"old", b"old"]).responses[0].partition_responses[0].base_offset == 0
            # Stale reads: requests for the new topic are refused here.
            answer = fetch(client, new, 0)
            assert (answer.error_code, answer.records or b"") == (UNKNOWN_TOPIC_ID, b"")
            assert produce(client, new, [b"new"]).responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_ID
            # Stale state: no StopReplica has arrived, but LeaderAndIsr for the next topic of the name arrives.
            assert broker.partitions.apply([order(new, epoch=NEW_EPOCH)]) == [NONE]
            publish(broker, port, new, "t", 1, epoch=NEW_EPOCH)
            assert fetch(client, old, 0).error_code == UNKNOWN_TOPIC_ID, "its log is closed"
            assert produce(client, old, [b"late"]).responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_ID
            answer = fetch(client, new, 0)
            assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (NONE, 0, 0)
            assert answer.records == b"", "an empty log"
            assert produce(client, new, [b"new"]).responses[0].partition_responses[0].base_offset == 0
        (staged,) = broker.log_dirs.staged()
        assert (staged.topic_id, staged.partition) == (old, 0)
        assert Path(staged.path) == tmp_path / "deleting" / f"{old.hex}_0"
        assert (Path(staged.path) / "00000000000000000000.log").read_bytes().count(b"old") == 2
        assert b"old" not in (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
        # The earlier topic cannot replace its successor.
        assert broker.partitions.apply([order(old, epoch=OLD_EPOCH)]) == [INCONSISTENT_TOPIC_ID]

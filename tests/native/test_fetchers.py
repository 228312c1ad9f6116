"""Leaders that partitions follow, as the control plane passes them."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from pybroker.native import BrokerAddress, FollowedPartition, NativeBroker, Uuid
from tests.native.harness import BROKER_ID, CLUSTER_ID, WAIT_S, native, order

LEADER = 7


def follows(topic_id: Uuid, leader: int = LEADER, epoch: int = 0) -> FollowedPartition:
    return FollowedPartition(topic_id, 0, leader, epoch)


def test_partitions_follow_a_broker_until_they_are_told_otherwise(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with native([tmp_path / "a"], listen=False) as broker, socket.create_server(("127.0.0.1", 0)) as listener:
        assert broker.fetchers.figures() == []
        broker.fetchers.start({"security.protocol": "PLAINTEXT"})
        broker.fetchers.set_broker_epoch(5)
        assert broker.partitions.apply([order(topic_id, leader=LEADER)]) == [0]
        address = BrokerAddress(LEADER, "127.0.0.1", listener.getsockname()[1])
        broker.fetchers.set([address], [follows(topic_id)])
        connection, _ = listener.accept()
        with connection:
            assert int.from_bytes(connection.recv(4, socket.MSG_WAITALL)) > 0, "it says what it is"

            deadline = time.monotonic() + WAIT_S
            while (figures := broker.fetchers.figures()[0]).partitions == 0:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert (figures.leader, figures.connected, figures.records) == (LEADER, False, 0)
            broker.fetchers.set([], [follows(topic_id, leader=-1, epoch=1)])
            assert broker.fetchers.figures() == []
            # An older epoch is outdated; no partition here follows this broker.
            broker.fetchers.set([], [follows(topic_id, leader=BROKER_ID, epoch=2)])
            assert broker.fetchers.figures() == []


def test_a_shutdown_does_not_wait_for_a_leader_that_says_nothing(tmp_path: Path) -> None:
    topic_id = Uuid.random()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with native([tmp_path / "a"], listen=False) as broker:
            broker.fetchers.start({})
            broker.partitions.apply([order(topic_id, leader=LEADER)])
            address = BrokerAddress(LEADER, "127.0.0.1", listener.getsockname()[1])
            broker.fetchers.set([address], [follows(topic_id)])
            connection, _ = listener.accept()
            patience_s = 600
            before = time.monotonic()
            broker.shutdown(patience_s * 1000)
            assert time.monotonic() - before < patience_s / 4
            connection.close()
        # The log directory is free.
        with native([tmp_path / "a"], listen=False) as again:
            assert again.partitions.apply([order(topic_id)]) == [0]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    with native([tmp_path / "a"], listen=False) as broker:
        with pytest.raises(RuntimeError, match=r"fetchers\.start"):
            broker.fetchers.set([], [])
        with pytest.raises(ValueError, match=r"security\.protocol=x"):
            broker.fetchers.start({"security.protocol": "x"})
        broker.fetchers.start({})
        with pytest.raises(RuntimeError, match="before"):
            broker.fetchers.start({})
        with pytest.raises(ValueError, match="zero id"):
            broker.fetchers.set([], [follows(Uuid.ZERO)])
        broker.fetchers.stop()
        broker.fetchers.stop()
        broker.fetchers.set([], [follows(Uuid.random())])
        assert broker.fetchers.figures() == []
    with pytest.raises(ValueError, match=r"replica\.fetch\.min\.bytes"):
        NativeBroker(
            broker_id=BROKER_ID,
            cluster_id=CLUSTER_ID,
            log_dirs=[str(tmp_path / "b")],
            settings={"replica.fetch.min.bytes": "many"},
        )

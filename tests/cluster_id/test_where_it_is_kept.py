"""Only the metadata store determines the cluster's id. The ids in log directories only prevent a start in the wrong
cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.offline.offline_directories import read_properties_of
from tests.cluster_id.test_cluster_id import adopt, cluster_id_of
from tests.conftest import StartBroker
from tests.topic_ids.lives import Lives
from tests.topic_ids.stopped import in_store


async def forget(store: EmbeddedStore) -> None:
    """Make the store look like one from before cluster ids, or like a new one."""
    await store.delete(znodes.CLUSTER_ID)


async def stored_id(store: EmbeddedStore) -> str:
    return znodes.decode_cluster_id((await store.get(znodes.CLUSTER_ID)).data)


def said_by(directory: Path) -> str | None:
    return (read_properties_of(directory) or {}).get("cluster.id")


@pytest.mark.checklist(282, 330, "D35", "B9")
def test_what_a_directory_says_never_becomes_the_id(start_broker: StartBroker, tmp_path: Path) -> None:
    """KIP-78: when the store has lost the id, an administrator sets it again by hand."""
    directory = tmp_path / "one"
    broker = start_broker({"log.dirs": str(directory)})
    before = cluster_id_of(broker)
    lives = Lives(broker.port)
    topic_id = lives.create("orders")
    broker.stop()
    in_store(directory, forget)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=re.escape(f"belongs to cluster {before}, this is cluster ")):
            broker.start()
        assert in_store(directory, stored_id) != before, "taken from the directory"
        assert said_by(directory) == before, "given up by the directory"
    done = adopt(broker, before, str(directory))
    assert done.returncode == 0, done.stderr
    broker.start()
    assert cluster_id_of(broker) == before
    assert Lives(broker.port).metadata("orders").topic_id == topic_id


@pytest.mark.checklist(330, "D35")
def test_a_new_directory_is_told_the_id(start_broker: StartBroker, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    broker = start_broker({"log.dirs": str(one)})
    before = cluster_id_of(broker)
    broker.stop()
    broker.settings["log.dirs"] = f"{one},{two}"
    broker.start()
    assert cluster_id_of(broker) == before
    broker.stop()
    assert (said_by(one), said_by(two), in_store(one, stored_id)) == (before, before, before)

"""A person discards stray replicas of an unknown topic in the console."""

from __future__ import annotations

import asyncio
import shutil

from pybroker.client import AdminClient, NewTopic, Producer, Uuid
from pybroker.testing import Cluster
from tests.console.chromium import Chromium
from tests.console.console_process import console
from tests.console.kit import remove_after_its_id_was_typed


async def _write(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic("kept", 1, 1)])
        await producer.send("kept", "a value")


def test_data_of_an_unknown_topic_is_discarded_after_its_id_was_typed(browser: Chromium) -> None:
    unknown = Uuid.random()
    # A single broker leaves such data in place.
    with Cluster(1, {"delete.topic.delay.ms": "0"}) as cluster:
        broker = cluster.brokers[1]
        asyncio.run(_write(broker.bootstrap))
        broker.stop()
        spectre = broker.data_dir / "spectre-0"
        shutil.copytree(broker.data_dir / "kept-0", spectre)
        (spectre / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
        broker.start()

        with console(broker.bootstrap) as address:
            said = "The found data is being removed."
            remove_after_its_id_was_typed(browser, address, broker.data_dir, unknown, done=said)
            assert not spectre.exists()
            browser.open(f"{address}/deletions?q={unknown}")
            assert "found" not in [badge.text for badge in browser.all("tbody .badge")]
            assert (broker.data_dir / "kept-0").exists()

"""Measures interruptions after a broker is killed, hangs or stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from benches.cluster.peers import SESSION_MS, ClusterPeer
from benches.compare import load
from benches.compare.cases import fresh
from pybroker.client import KafkaError, NewTopic, TopicPartition, blocking
from tests.support.brokers import BrokerProcess

SETTLE_S = 2.0
WATCH_S = 12.0 + SESSION_MS / 1000
"""Longer than any system takes; a longer interruption counts as this value."""

End = Callable[[BrokerProcess], None]


def kill(broker: BrokerProcess) -> None:
    """Kill with SIGKILL."""
    broker.kill()


def stop(broker: BrokerProcess) -> None:
    """Stop cleanly."""
    broker.stop()


def hang(broker: BrokerProcess) -> None:
    """Suspend a broker for longer than its session, then kill it."""
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(SESSION_MS / 1000 + 4)
    broker.kill()


def produce_gap(cluster: ClusterPeer, end: End) -> float:
    """Return the longest gap (ms) between acknowledgements of a partition whose leader ends."""
    topic = fresh("gap")
    command = load.command(cluster, "gap", topic=topic, partitions=1, replication=3, duration=f"{WATCH_S:.0f}s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout is not None
        writing.stdout.readline()  # Wait until the writer has started.
        time.sleep(SETTLE_S)
        leader = cluster.brokers[_leader(cluster, topic)]
        end(leader)
        gap = float(json.loads(writing.stdout.readline())["gap_ms"])
    leader.start()
    load.run(cluster, "insync", topic=topic, partitions=1)
    return gap


def _leader(cluster: ClusterPeer, topic: str) -> int:
    with cluster.admin() as admin:
        leader = admin.describe_topics([topic]).all_topic_names()[topic].partitions[0].leader
    assert leader is not None
    return leader.id


def create_gap(cluster: ClusterPeer, end: End) -> float:
    """Return the time in ms from the end of the controller until a topic can be created again."""
    controller = cluster.brokers[cluster.controller()]
    others = ",".join(broker.bootstrap for broker in cluster.brokers.values() if broker is not controller)
    with blocking.AdminClient({"bootstrap.servers": others}) as admin:
        ending = threading.Thread(target=end, args=(controller,))
        since = time.monotonic()
        ending.start()
        if end is kill:
            ending.join()
        _create(admin, since + 300)
        took = time.monotonic() - since
        ending.join()
    controller.start()
    return took * 1e3


def _create(admin: blocking.AdminClient, give_up: float) -> None:
    while True:
        try:
            admin.create_topics([NewTopic(fresh("after"), 1, 1)], timeout_s=2)
            return
        except KafkaError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def commits_gap(cluster: ClusterPeer) -> float:
    """Return the longest gap in ms between commits of a group whose coordinator is killed."""
    topic, longest = fresh("grouped"), 0.0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": fresh("group"), "auto.offset.reset": "earliest"}
    with cluster.admin() as admin, blocking.Consumer(settings) as consumer:
        admin.create_topics([NewTopic(topic, 1, 3)])
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        coordinator = admin.describe_groups([settings["group.id"]]).all()[settings["group.id"]].coordinator
        assert coordinator is not None
        broker = cluster.brokers[coordinator]
        end, ending = time.monotonic() + WATCH_S, time.monotonic() + SETTLE_S
        last, offset = time.monotonic(), 0
        while time.monotonic() < end:
            if broker.running and time.monotonic() > ending:
                broker.kill()
            consumer.poll(0.01)
            try:
                consumer.commit({TopicPartition(topic, 0): offset})
            except KafkaError:
                continue
            offset += 1
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        longest = max(longest, time.monotonic() - last)
    broker.start()
    return longest * 1e3

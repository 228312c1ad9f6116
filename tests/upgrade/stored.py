"""Data directories that an earlier version wrote, and their contents.

`python -m tests.upgrade.stored TREE ARCHIVE` starts the brokers of another checkout (TREE, with its native extension
built in place), fills them, records what clients see, and packs their directories: one broker that was stopped, one
that was killed, and three brokers on ZooKeeper. `test_stored_data.py` starts the present version on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka as ck

from pybroker.client import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    NewTopic,
    PatternType,
    QuotaEntity,
    ResourceType,
    ScramMechanism,
    ScramUpsertion,
    TopicCollection,
    blocking,
)
from pybroker.native import Uuid
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.cluster import BrokerCluster, until
from tests.support.zookeeper import ZooKeeperServer

FACTS = "facts.json"
DELETED = "deleted"
LATER_MS = str(10**12)
"""Some 30 years: the archive is used for years, and nothing in it may expire."""
NOT_YET_COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": LATER_MS}
FOR_EVER = {
    "delete.topic.delay.ms": LATER_MS,
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "transactional.id.expiration.ms": str(2**31 - 1),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
GROUPS = {"classic": "classic", "consumer": "consumer"}


def fill(broker: BrokerProcess, replicas: int) -> None:
    """Make everything that a data directory and a metadata store hold."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics(
            [
                NewTopic("plain", 3, replicas),
                NewTopic("compacted", 2, replicas, config=NOT_YET_COMPACTED),
                NewTopic("transactions", 1, replicas),
                NewTopic(DELETED, 2, replicas),
                NewTopic("undeleted", 1, replicas),
                NewTopic("truncated", 1, replicas),
            ]
        ).all()
        for codec, topic in (("none", "plain"), ("zstd", "plain"), ("lz4", "compacted"), ("gzip", DELETED)):
            produce(broker, topic, {"compression.type": codec})
        for topic in ("undeleted", "truncated"):
            produce(broker, topic, {})
        transactions(broker)
        for group, protocol in GROUPS.items():
            commit(broker, group, protocol, ["plain", DELETED])
        ids = {name: topic.topic_id for name, topic in admin.list_topics().items()}
        admin.delete_topics(TopicCollection.of_topic_ids([ids["undeleted"]])).all()
        admin.undelete_topics([ids["undeleted"]]).all()
        admin.truncate_topics(["truncated"], keep_offsets=True).all()
        produce(broker, "truncated", {})
        alterations = {
            ConfigResource.topic("plain"): {"max.message.bytes": "500000"},
            ConfigResource.broker(""): {"log.cleaner.threads": "2"},
            ConfigResource(ConfigResourceType.GROUP, "consumer"): {"consumer.session.timeout.ms": "50000"},
        }
        admin.incremental_alter_configs(
            {
                resource: [AlterConfigOp(name, value) for name, value in values.items()]
                for resource, values in alterations.items()
            }
        ).all()
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret", ScramMechanism.SCRAM_SHA_256, 4096)])
        admin.create_acls(
            [
                AclBinding(
                    ResourceType.TOPIC,
                    "pl",
                    "User:alice",
                    AclOperation.READ,
                    AclPermissionType.ALLOW,
                    PatternType.PREFIXED,
                    "*",
                )
            ]
        )
        admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1e6}}).all()


def produce(broker: BrokerProcess, topic: str, settings: Mapping[str, Any]) -> None:
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})
    for number in range(300):
        value = (f"{topic} {number:06} ".encode()) * 10
        producer.produce(topic, value, f"k{number % 50}", timestamp=number, headers={"n": str(number)})
    assert producer.flush(120) == 0


def transactions(broker: BrokerProcess) -> None:
    """Commit one transaction and abort another."""
    for name, commits in (("committed", True), ("aborted", False)):
        producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        producer.init_transactions(120)
        producer.begin_transaction()
        for number in range(20):
            producer.produce("transactions", f"{name} {number}", partition=0, timestamp=number)
        producer.flush(120)
        if commits:
            producer.commit_transaction(120)
        else:
            producer.abort_transaction(120)


def commit(broker: BrokerProcess, group: str, protocol: str, topics: list[str]) -> None:
    """A member of the group reads some records and commits."""
    settings: dict[str, Any] = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe(topics)
    read: list[ck.Message] = []

    def read_all() -> bool:
        read.extend(consumer.consume(100, 1.0))
        return {message.topic() for message in read} == set(topics)

    until(read_all)
    consumer.commit(asynchronous=False)
    consumer.close()


def records(broker: BrokerProcess, topic: str, partitions: int) -> list[str]:
    """Return number and digest of the committed records of each partition."""
    found = []
    for number in range(partitions):
        consumer = ck.Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "reader",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING)])
        digest, count = hashlib.sha256(), 0
        while True:
            message = consumer.poll(120)
            assert message is not None, f"{topic}-{number} is not read"
            if (error := message.error()) is not None:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                break
            seen = (message.offset(), message.key(), message.value(), message.headers(), message.timestamp()[1])
            digest.update(repr(seen).encode())
            count += 1
        consumer.close()
        found.append(f"{count} {digest.hexdigest()}")
    return found


def facts(broker: BrokerProcess) -> dict[str, Any]:
    """Return everything that clients can see."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        topics = {
            name: (str(topic.topic_id), len(topic.partitions))
            for name, topic in admin.describe_topics(sorted(admin.list_topics())).all().items()
        }
        resources = [
            *map(ConfigResource.topic, sorted(topics)),
            ConfigResource.broker(""),
            ConfigResource(ConfigResourceType.GROUP, "consumer"),
        ]
        own = {
            ConfigSource.TOPIC_CONFIG,
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            ConfigSource.GROUP_CONFIG,
        }
        configs = {
            f"{resource.type.name} {resource.name}": {n: e.value for n, e in entries.items() if e.source in own}
            for resource, entries in admin.describe_configs(resources).all().items()
        }
        seen = {
            "cluster id": admin.describe_cluster().cluster_id,
            "topics": {name: list(each) for name, each in topics.items()},
            "records": {name: records(broker, name, count) for name, (_, count) in topics.items()},
            "configs": configs,
            "offsets": {topic: offsets_of(admin, topic) for topic in topics},
            "users": {
                user: [[info.mechanism.name, info.iterations] for info in infos]
                for user, infos in admin.describe_user_scram_credentials().items()
            },
            "quotas": sorted(repr(quota) for quota in admin.describe_client_quotas()),
            "entries": sorted(repr(entry) for entry in admin.describe_acls()),
            "deletions": sorted([each.name, str(each.topic_id)] for each in admin.describe_deletions()),
        }
    shown: dict[str, Any] = json.loads(json.dumps(seen))
    return shown


def undeleted(broker: BrokerProcess, topic_id: str) -> dict[str, Any]:
    """Undelete the topic; return its records and the groups' offsets."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.undelete_topics([Uuid.parse(topic_id)]).all()
        until(lambda: offsets_of(admin, DELETED))
        return {"records": records(broker, DELETED, 2), "offsets": offsets_of(admin, DELETED)}


def offsets_of(admin: blocking.AdminClient, topic: str) -> dict[str, int]:
    """Return the groups' committed offsets of a topic."""
    return {
        f"{group} {partition}": found.offset
        for group in GROUPS
        for partition, found in admin.list_consumer_group_offsets(group).items()
        if partition.topic == topic
    }


def one_broker(folder: Path) -> PybrokerProcess:
    """Return a broker whose data directory is `folder/data`."""
    return PybrokerProcess(folder, {**FOR_EVER, "log.flush.mode": "commit"})


def three_brokers(folder: Path) -> BrokerCluster:
    """A cluster with its ZooKeeper's directory in `folder`; not started."""
    return BrokerCluster(folder, 3, ZooKeeperServer(folder / "zookeeper"), FOR_EVER)


def _of_tree(broker: PybrokerProcess, tree: Path) -> None:
    present = broker.environment
    broker.environment = lambda: {**present(), "PYTHONPATH": str(tree)}  # type: ignore[method-assign]


def _made(broker: BrokerProcess, replicas: int) -> dict[str, Any]:
    """Fill a broker. The contents of the topic to delete are recorded before its deletion, which comes last."""
    fill(broker, replicas)
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        held = {"records": records(broker, DELETED, 2), "offsets": offsets_of(admin, DELETED)}
        admin.delete_topics(TopicCollection.of_topic_ids([admin.list_topics()[DELETED].topic_id])).all()
    return {"facts": facts(broker), "deleted": held}


def main() -> None:
    tree, archive = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    noted: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temp:
        root = Path(temp)
        for kind in ("stopped", "killed"):
            broker = one_broker(root / kind)
            _of_tree(broker, tree)
            broker.start()
            noted[kind] = _made(broker, 1)
            if kind == "killed":
                broker.kill()
            else:
                broker.stop()
        cluster = three_brokers(root / "cluster")
        cluster.zookeeper.start()
        for each in cluster.brokers.values():
            _of_tree(each, tree)
        cluster.start()
        noted["cluster"] = _made(cluster.brokers[1], 3)
        for each in cluster.brokers.values():
            each.stop()
        cluster.zookeeper.stop()
        (root / FACTS).write_text(json.dumps(noted, indent=1, sort_keys=True))
        for rest in (*root.rglob("console.log"), *root.rglob("*.lock")):
            rest.unlink()
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            for path in sorted(root.iterdir()):
                packed.add(path, path.name)
    print(f"{archive}: {os.path.getsize(archive)} bytes")


if __name__ == "__main__":
    main()

"""Random deltas for any image: every field of every struct gets values by its type, so that a new field does too."""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pybroker.broker.metadata.acl_nodes import AclBinding, AclNode, AclPattern
from pybroker.broker.metadata.deletion_records import (
    DELETING,
    FOUND,
    LIVE,
    REMOVED,
    STAGED,
    UNDELETING,
    DeletionRecord,
)
from pybroker.broker.metadata.image import (
    BrokerImage,
    ClusterImage,
    ConfigImage,
    ImageDelta,
    PartitionImage,
    RequestOutcome,
    TopicImage,
)
from pybroker.broker.metadata.ingest_records import IngestKey, IngestRecord, SeriesKey
from pybroker.broker.metadata.quota_nodes import path_of
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.metadata.znodes import RunningNode, StagedNode
from pybroker.native import Uuid
from pybroker.protocol.scram import ScramCredential

INT16 = {"producer_epoch", "version", "lowest", "highest"}
INT64 = {"end", "rows", "bytes", "base_offset", "end_offset", "producer_id", "batch_id", "offset", "log_offset"}
"""Names of 64-bit fields. Fields whose name ends with `_ms` have 64 bits, too."""
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096).render()
SETTINGS = ("cleanup.policy", "retention.ms", "segment.bytes")


class RandomDeltas:
    """Makes deltas; the same ones for the same `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0
        self.fields: dict[str, Callable[[ClusterImage], Any]] = {
            "topics": self._topics,
            "states": lambda image: (),  # with_changed_states makes it from `topics`
            "removed": lambda image: self._some(image.topics.values()),
            "brokers": lambda image: tuple(self._broker(each) for each in self._some(range(5))),
            "fenced": lambda image: tuple(self._broker(each) for each in self._some(range(5, 9))),
            "lost_brokers": lambda image: self._some(image.brokers),
            "broker_epochs": lambda image: {each: self.random.randrange(-1, 2**40) for each in self._some(range(5))},
            "forgotten_brokers": lambda image: self._some(image.broker_epochs),
            "leaving": lambda image: self._some(image.brokers),
            "deletions": self._deletions,
            "forgotten_deletions": lambda image: self._some(image.deletions),
            "floors": lambda image: {self._text(): self._int32() for _ in range(2)},
            "broker_configs": lambda image: self._configs(image.broker_configs, ("1", "2", "<default>")),
            "group_configs": lambda image: self._configs(image.group_configs, ("g", "h")),
            "client_metrics": lambda image: self._configs(image.client_metrics, ("m", "n")),
            "acls": self._acls,
            "users": self._users,
            "quotas": self._quotas,
            "tokens": self._tokens,
            "features": lambda image: msgspec.structs.replace(
                image.features,
                levels=self._changed(image.features.levels, ("group.version", "share.version"), self._level),
                version=image.features.version + 1,
            ),
            "ingests": lambda image: (self.make(IngestRecord),),
            "ended_ingests": lambda image: tuple(self.value(IngestKey, "") for _ in range(2)),
            "committed_ingests": lambda image: (self.make(IngestRecord), self.make(IngestRecord)),
            "forgotten_ingests": lambda image: tuple(self.value(SeriesKey, "") for _ in range(2)),
            "made_ingest_folders": lambda image: {self._text(): Uuid.random()},
            "removed_ingest_folders": lambda image: self._some(image.ingest_folders),
            "dropped_orders": lambda image: (self._text(),),
            "raised": lambda image: True,
            "leftovers": lambda image: {self._text(): self.random.randrange(-1, 5)},
            "running": lambda image: {each: self.make(RunningNode) for each in self._some(range(5))},
            "staged": lambda image: {each: {Uuid.random(): self.make(StagedNode)} for each in self._some(range(5))},
            "unstaged": lambda image: tuple(
                (broker_id, topic_id) for broker_id, marks in image.staged.items() for topic_id in self._some(marks)
            ),
            "next_producer_id": lambda image: self.random.randrange(2**40),
            "outcomes": lambda image: {Uuid.random(): self.value(RequestOutcome, "") for _ in range(2)},
            "forgotten_outcomes": lambda image: self._some(image.outcomes),
        }

    def delta(self, image: ClusterImage, share: float = 0.5) -> ImageDelta:
        """Return a delta that changes about this share of the fields."""
        chosen = [field for field in self.fields if self.random.random() < share]
        values = {field: self.fields[field](image) for field in chosen}
        # A topic is removed if another incarnation takes its name, and not if it stays.
        topics = {topic.name: topic.topic_id for topic in values.get("topics", ())}
        removed = {topic.name: topic for topic in values.get("removed", ()) if topic.name not in topics}
        for name, topic_id in topics.items():
            if name in image.topics and image.topics[name].topic_id != topic_id:
                removed[name] = image.topics[name]
        return ImageDelta(**{**values, "removed": tuple(removed.values())})

    def image(self) -> ClusterImage:
        """Return an image after many changes."""
        image = ClusterImage.initial(3)
        for _ in range(6):
            image = image.apply(self.delta(image, share=0.9))
        return self.details(image)

    def details(self, image: ClusterImage) -> ClusterImage:
        """Return the image with other values in the fields that no delta changes."""
        return msgspec.structs.replace(
            image,
            controller_epoch=self._int32(),
            offset=self.random.randrange(2**40),
            topic_ids=self.random.random() < 0.5,
            unclean_elections=self.random.random() < 0.5,
            damaged={self._text(): self._text() for _ in range(2)},
            damaged_ingests=frozenset((self._text(),)),
            delete_orders=frozenset((self._text(),)),
        )

    def make(self, kind: type[Any], **fixed: Any) -> Any:
        """Return a struct with random values for all fields that are not `fixed`."""
        hints = typing.get_type_hints(kind)
        values = {
            field.name: self.value(hints[field.name], field.name)
            for field in msgspec.structs.fields(kind)
            if field.name not in fixed and (field.required or self.random.random() < 0.7)
        }
        return kind(**values, **fixed)

    def value(self, kind: Any, name: str) -> Any:
        """Return a value of a type; `name` is the name of its field."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if name == "offsets":
            return tuple(self._offset() for _ in range(self.random.randrange(3)))
        if origin in (types.UnionType, typing.Union):
            return None if self.random.random() < 0.3 else self.value(arguments[0], name)
        if origin is tuple and arguments[-1] is Ellipsis:
            return tuple(self.value(arguments[0], name) for _ in range(self.random.randrange(4)))
        if origin is tuple:
            return tuple(self.value(each, name) for each in arguments)
        if origin is not None and issubclass(origin, Mapping):
            count = self.random.randrange(4)
            return {self.value(arguments[0], ""): self.value(arguments[1], name) for _ in range(count)}
        return self._plain(kind, name)

    def _plain(self, kind: Any, name: str) -> Any:
        choose = self.random
        if kind is bool:
            return choose.random() < 0.5
        if kind is int:
            return self._int(name)
        if kind is str:
            return self._string(name)
        if kind is bytes:
            return choose.randbytes(3)
        if kind is Uuid:
            return Uuid.from_bytes(choose.randbytes(16))
        if hasattr(kind, "_fields"):
            hints = typing.get_type_hints(kind)
            return kind(*(self.value(hints[each], each) for each in kind._fields))
        return self.make(kind)

    def _int(self, name: str) -> int:
        choose = self.random
        if name == "port":
            return choose.choice((0, 9092, 65_535))
        if name in INT16:
            return choose.choice((0, 1, 32_767))
        if name in INT64 or name.endswith("_ms"):
            return choose.choice((0, 5, 2**40, 2**62))
        return self._int32()

    def _int32(self) -> int:
        return self.random.choice((0, 1, 7, 300, 2**31 - 1))

    def _string(self, name: str) -> str:
        if name == "security_protocol":
            return self.random.choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
        if name == "state":
            return self.random.choice((DELETING, STAGED, UNDELETING, LIVE, REMOVED, FOUND))
        return self._text()

    def _text(self) -> str:
        return "".join(self.random.choices("abcxyz-é漢😀", k=self.random.choice((0, 1, 8, 40))))

    def _some(self, values: Any) -> tuple[Any, ...]:
        there = list(values)
        return tuple(self.random.sample(there, min(len(there), self.random.randrange(3))))

    def _changed(self, known: Mapping[str, Any], names: tuple[str, ...], value: Callable[[], Any]) -> dict[str, Any]:
        """Return the mapping with some keys set and some removed."""
        after = dict(known)
        for name in names:
            match self.random.randrange(3):
                case 0:
                    after.pop(name, None)
                case 1:
                    after[name] = value()
        return after

    def _level(self) -> int:
        return self.random.randrange(3)

    def _setting(self) -> str:
        return self.random.choice((self._text(), self._text(), "é" * 20_000))

    # --- topics -------------------------------------------------------------------------------------------------------

    def _topics(self, image: ClusterImage) -> tuple[TopicImage, ...]:
        changed = [self._changed_topic(topic) for topic in self._some(image.topics.values())]
        new = []
        for _ in range(self.random.randrange(3)):
            self._count += 1
            name = f"{self.random.choice(('a.', 'b_', 'c'))}{self._count}"
            partitions = tuple(self.make(PartitionImage) for _ in range(self.random.randrange(1, 5)))
            new.append(self.make(TopicImage, name=name, partitions=partitions))
        return (*changed, *new)

    def _changed_topic(self, topic: TopicImage) -> TopicImage:
        partitions = list(topic.partitions)
        for index, partition in enumerate(partitions):
            if self.random.random() < 0.5:
                partitions[index] = self._changed_state(partition)
        changes: dict[str, Any] = {"partitions": tuple(partitions)}
        match self.random.randrange(6):
            case 0:
                changes["partitions"] = (*partitions, self.make(PartitionImage))
            case 1:
                changes["config"] = self._changed(topic.config, SETTINGS, self._setting)
                changes["config_version"] = self._int32()
            case 2:
                # This is another incarnation.
                return typing.cast(TopicImage, self.make(TopicImage, name=topic.name))
            case 3:
                name = self.random.choice(("lineage", "departed", "created_ms", "node_version"))
                changes[name] = self.value(typing.get_type_hints(TopicImage)[name], name)
        return msgspec.structs.replace(topic, **changes)

    def _changed_state(self, state: PartitionImage) -> PartitionImage:
        fields = self.random.sample(PartitionImage.__struct_fields__, self.random.randrange(4))
        hints = typing.get_type_hints(PartitionImage)
        changes: dict[str, Any] = {field: self.value(hints[field], field) for field in fields}
        if self.random.random() < 0.5:
            changes["state_version"] = (state.state_version + 1) % 2**31
        if self.random.random() < 0.3:
            changes |= {"leader": self.random.randrange(-1, 5), "leader_epoch": (state.leader_epoch + 1) % 2**31}
        return msgspec.structs.replace(state, **changes)

    def _broker(self, broker_id: int) -> BrokerImage:
        broker: BrokerImage = self.make(BrokerImage, broker_id=broker_id, epoch=self.random.randrange(2**50))
        return broker

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _deletions(self, image: ClusterImage) -> tuple[DeletionRecord, ...]:
        known = self._some(image.deletions.values())
        changed = (msgspec.structs.replace(record, state=STAGED, missing=(1, 2)) for record in known)
        return (*changed, self.make(DeletionRecord))

    def _offset(self) -> dict[str, Any]:
        return {
            "group": self._text(),
            "partition": self._int32(),
            "offset": self._int("offset"),
            "leader_epoch": self._int32(),
            "metadata": self._text(),
            "commit_timestamp_ms": self._int("commit_timestamp_ms"),
            "expire_timestamp_ms": self.random.choice((None, 5)),
            "log_offset": self.random.choice((-1, 2**40)),
        }

    def _configs(self, known: Mapping[str, ConfigImage], names: tuple[str, ...]) -> dict[str, ConfigImage]:
        changed = {}
        for name in names:
            before = known.get(name, ConfigImage({}, -1))
            if self.random.random() < 0.5:
                changed[name] = ConfigImage(self._changed(before.config, SETTINGS, self._setting), before.version + 1)
        return changed

    def _acls(self, image: ClusterImage) -> dict[AclPattern, AclNode]:
        changed: dict[AclPattern, AclNode] = {}
        for pattern in ((2, 3, "t"), (2, 4, "t"), (3, 3, "é")):
            known = image.acls.get(pattern, AclNode((), -1))
            bindings = [one for one in known.bindings if self.random.random() < 0.6]
            bindings += [AclBinding(*pattern, "User:a", f"10.0.0.{self.random.randrange(255)}", 3, 3) for _ in range(2)]
            if self.random.random() < 0.3:
                self.random.shuffle(bindings)
            if self.random.random() < 0.3:
                bindings.clear()
            changed[pattern] = AclNode(tuple(dict.fromkeys(bindings)), known.version + 1)
        return changed

    def _users(self, image: ClusterImage) -> dict[str, ConfigImage]:
        keys = ("SCRAM-SHA-256", "SCRAM-SHA-512", "producer_byte_rate", "request_percentage", "other")
        changed = {}
        for name in ("ann", "bé", "<default>"):
            known = image.users.get(name, ConfigImage({}, -1))
            config = self._changed(known.config, keys, self._of_user)
            changed[name] = ConfigImage(config, known.version + 1)
        return changed

    def _of_user(self) -> str:
        return self.random.choice((CREDENTIAL, "iterations=4096," + CREDENTIAL, "1024", "1.5", "1e3", "many", "inf"))

    def _quotas(self, image: ClusterImage) -> dict[str, ConfigImage]:
        entities = (
            (("user", None),), (("client-id", "c/d"),), (("client-id", None), ("user", "ü")), (("ip", "10.0.0.1"),),
        )  # fmt: skip
        keys = ("consumer_byte_rate", "connection_creation_rate", "controller_mutation_rate", "unknown")
        changed = {}
        for path in (*map(path_of, entities), "/config/users/parent/clients", "/config/clients/%61"):
            known = image.quotas.get(path, ConfigImage({}, -1))
            changed[path] = ConfigImage(self._changed(known.config, keys, self._of_user), known.version + 1)
        return changed

    def _tokens(self, image: ClusterImage) -> dict[str, DelegationToken | None]:
        token_id = self._text()
        gone: dict[str, DelegationToken | None] = dict.fromkeys(self._some(image.tokens))
        return {token_id: self.make(DelegationToken, token_id=token_id), **gone}

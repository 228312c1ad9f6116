"""Writes schema/client from the message definitions inside Apache Kafka's published jars.

Run by hand when a new Kafka release is taken up; builds and tests only read what it wrote:

    python native/protocol/schema/import_kafka.py

The jars come from Maven Central through `mvn`. Taken are facts: names, types, versions, tags and defaults; nothing
of the definitions' wording; what is ours is added (OWN_TOPIC_IDS). A version that both releases know follows the newer
one. tests/oracle proves the result
against the message classes of the same jars.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NEWEST = "4.4.0"
OLDEST = "3.9.2"  # the last release that served ZooKeeper clusters and the versions that Kafka 4 dropped
GROUP_RECORDS = (
    "OffsetCommitKey", "OffsetCommitValue", "GroupMetadataKey", "GroupMetadataValue",
    "ConsumerGroupMetadataKey", "ConsumerGroupMetadataValue",
    "ConsumerGroupMemberMetadataKey", "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupTargetAssignmentMetadataKey", "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey", "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupCurrentMemberAssignmentKey", "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupRegularExpressionKey", "ConsumerGroupRegularExpressionValue",
    "ShareGroupMemberMetadataKey", "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey", "ShareGroupMetadataValue",
    "ShareGroupTargetAssignmentMetadataKey", "ShareGroupTargetAssignmentMetadataValue",
    "ShareGroupTargetAssignmentMemberKey", "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupCurrentMemberAssignmentKey", "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupStatePartitionMetadataKey", "ShareGroupStatePartitionMetadataValue",
    "StreamsGroupMetadataKey", "StreamsGroupMetadataValue",
    "StreamsGroupMemberMetadataKey", "StreamsGroupMemberMetadataValue",
    "StreamsGroupTargetAssignmentMetadataKey", "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey", "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupCurrentMemberAssignmentKey", "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupTopologyKey", "StreamsGroupTopologyValue",
)  # fmt: skip
OWN_TOPIC_IDS = {
    "ListOffsetsRequest": "ListOffsetsTopic", "ListOffsetsResponse": "ListOffsetsTopicResponse",
    "DeleteRecordsRequest": "DeleteRecordsTopic", "DeleteRecordsResponse": "DeleteRecordsTopicResult",
    "OffsetForLeaderEpochRequest": "OffsetForLeaderTopic",
    "OffsetForLeaderEpochResponse": "OffsetForLeaderTopicResult",
    "AddPartitionsToTxnRequest": "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnResponse": "AddPartitionsToTxnTopicResult",
    "WriteTxnMarkersRequest": "WritableTxnMarkerTopic", "WriteTxnMarkersResponse": "WritableTxnMarkerTopicResult",
    "DescribeConfigsRequest": "DescribeConfigsResource", "DescribeConfigsResponse": "DescribeConfigsResult",
    "AlterConfigsRequest": "AlterConfigsResource", "AlterConfigsResponse": "AlterConfigsResourceResponse",
    "AlterReplicaLogDirsRequest": "AlterReplicaLogDirTopic",
    "AlterReplicaLogDirsResponse": "AlterReplicaLogDirTopicResult",
    "DescribeLogDirsRequest": "DescribableLogDirTopic", "DescribeLogDirsResponse": "DescribeLogDirsTopic",
    "CreatePartitionsRequest": "CreatePartitionsTopic", "CreatePartitionsResponse": "CreatePartitionsTopicResult",
    "ElectLeadersRequest": "TopicPartitions", "ElectLeadersResponse": "ReplicaElectionResult",
    "IncrementalAlterConfigsRequest": "AlterConfigsResource",
    "IncrementalAlterConfigsResponse": "AlterConfigsResourceResponse",
    "AlterPartitionReassignmentsRequest": "ReassignableTopic",
    "AlterPartitionReassignmentsResponse": "ReassignableTopicResponse",
    "ListPartitionReassignmentsRequest": "ListPartitionReassignmentsTopics",
    "ListPartitionReassignmentsResponse": "OngoingTopicReassignment",
    "DescribeProducersRequest": "TopicRequest", "DescribeProducersResponse": "TopicResponse",
}  # fmt: skip
"""Message → the struct in which Kafka names a topic, and to which a tagged `topic_id` of ours is added
(docs/protocol.md)."""
OWN_TAG = 10000
SHARE_RECORDS = ("ShareSnapshotKey", "ShareSnapshotValue", "ShareUpdateKey", "ShareUpdateValue")
FOLDER = Path(__file__).parent / "client"

Json = dict[str, Any]
Versions = frozenset[int]


def definitions(artifact: str, release: str) -> dict[str, Json]:
    """The message definitions of one jar, by name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
             f"-Dartifact=org.apache.kafka:{artifact}:{release}", f"-DoutputDirectory={folder}"],
            check=True, cwd=folder,
        )
        (jar,) = Path(folder).glob("*.jar")
        with zipfile.ZipFile(jar) as archive:
            texts = [
                archive.read(name).decode()
                for name in archive.namelist()
                if re.fullmatch(r"common/message/\w+\.json", name)
            ]
    lines = ("\n".join(line for line in text.split("\n") if not line.lstrip().startswith("//")) for text in texts)
    messages = {message["name"]: message for message in map(json.loads, lines)}
    unstable = {each["apiKey"] for each in messages.values() if each.get("latestVersionUnstable")}
    for each in messages.values():  # the mark stands on requests only
        each["latestVersionUnstable"] = each.get("apiKey") in unstable and each["type"] in ("request", "response")
    return messages


def versions(text: str, valid: Versions) -> Versions:
    """The members of `valid` that a range such as `3`, `0-4`, `2+` or `none` names."""
    if text == "none":
        return frozenset()
    first, _, last = text.rstrip("+").partition("-")
    top = max(valid, default=-1) if text.endswith("+") else int(last or first)
    return frozenset(version for version in valid if int(first) <= version <= top)


def valid_versions(message: Json, *, stable_only: bool) -> Versions:
    """The versions of a message; a release's unstable last one only if asked for."""
    everything = versions(message["validVersions"], frozenset(range(100)))
    if stable_only and message["latestVersionUnstable"]:
        return everything - {max(everything)}
    return everything


@dataclass
class Field:
    """A field over all versions of its message."""

    name: str
    type: str
    present: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None
    plain: bool
    fields: list[Field] = field(default_factory=list)

    @property
    def is_struct(self) -> bool:
        return self.type.removeprefix("[]")[0].isupper()


def snake_case(name: str) -> str:
    name = name[0].upper() + name[1:]
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def default_of(definition: Json) -> str | None:
    """The default where it is not what the type implies anyway. Kafka's generator reads a default of JSON's null (not
    the text "null") as none."""
    if definition.get("default") is None:
        return None
    text = str(definition["default"]).lower() if isinstance(definition["default"], bool) else str(definition["default"])
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
        text = str(int(text, 0))
    return None if text in ("", "0", "false") else text


def read_fields(message: Json, valid: Versions) -> list[Field]:
    """The fields of one definition, restricted to the versions `valid`."""
    shared = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}

    def read(definition: Json, around: Versions) -> Field:
        # Some fields that are only ever tagged say it by `taggedVersions` alone.
        present = versions(definition.get("versions") or definition["taggedVersions"], valid) & around
        kind = definition["type"]
        inner = definition.get("fields") or shared.get(kind.removeprefix("[]"), [])
        return Field(
            name=snake_case(definition["name"]),
            type=kind,
            present=present,
            nullable=versions(definition.get("nullableVersions", "none"), valid) & present,
            tag=int(definition["tag"]) if "tag" in definition else None,
            tagged=versions(definition.get("taggedVersions", "none"), valid) & present,
            default=default_of(definition),
            plain=definition.get("flexibleVersions") == "none",
            fields=[read(each, present) for each in inner],
        )

    def without_absent(fields: list[Field]) -> list[Field]:
        for each in fields:
            each.fields = without_absent(each.fields)
        return [each for each in fields if each.present]

    return without_absent([read(each, valid) for each in message.get("fields", [])])


def merge(newer: list[Field], older: list[Field]) -> list[Field]:
    """One field list that has the versions of both; a field only the older one knows goes where it stood there."""
    merged = list(newer)
    place = 0
    for old in older:
        found = next((i for i, new in enumerate(merged) if new.name == old.name), None)
        if found is None:
            merged.insert(place, old)
            place += 1
            continue
        new = merged[found]
        if new.type != old.type and not (new.is_struct and old.is_struct):
            raise ValueError(f"{new.name} is {old.type} in {OLDEST}, {new.type} in {NEWEST}")
        merged[found] = Field(
            new.name, new.type, new.present | old.present, new.nullable | old.nullable,
            new.tag if new.tag is not None else old.tag, new.tagged | old.tagged, new.default, new.plain,
            merge(new.fields, old.fields),
        )
        place = found + 1
    return merged


def add_topic_id(fields: list[Field], struct: str, flexible: Versions) -> None:
    """Adds the tag of ours wherever the struct stands."""
    for each in fields:
        add_topic_id(each.fields, struct, flexible)
        if each.type.removeprefix("[]") == struct:
            tagged = each.present & flexible
            each.fields.append(Field("topic_id", "uuid", tagged, frozenset(), OWN_TAG, tagged, None, plain=False))
            each.fields = [one for one in each.fields if one.present]


def layout(fields: list[Field], version: int) -> list[object]:
    """What a version's bytes depend on; equal layouts write equal bytes."""
    return [
        [
            each.type.removesuffix(each.type.removeprefix("[]")) if each.is_struct else each.type,
            version in each.nullable, each.tag if version in each.tagged else None, each.plain,
            layout(each.fields, version),
        ]
        for each in fields
        if version in each.present
    ]  # fmt: skip


def range_text(chosen: Versions, valid: Versions) -> str:
    first, last = min(chosen), max(chosen)
    if chosen != frozenset(version for version in valid if first <= version <= last):
        raise ValueError(f"versions with a gap: {sorted(chosen)}")
    if last == max(valid):
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


def notation(message: Json, fields: list[Field], valid: Versions) -> Iterator[str]:
    """One message in the project's notation; grammar in schema/README.md."""
    kind = message["type"] if message["type"] in ("request", "response", "header") else "data"
    name = re.sub(r"(Request|Response)$", "", message["name"]) if kind in ("request", "response") else message["name"]
    heads = [kind, name]
    if kind in ("request", "response"):
        heads.append(f"key {message['apiKey']}")
    heads.append(f"versions {min(valid)}-{max(valid)}")
    flexible = versions(message["flexibleVersions"], valid)
    if flexible:
        heads.append(f"flexible {min(flexible)}+")
    yield " ".join(heads)

    repeated = repeated_structs(fields)

    def lines(fields: list[Field], around: Versions, depth: int) -> Iterator[str]:
        for each in fields:
            parts = [each.name, each.type]
            if each.present != around:
                parts.append(range_text(each.present, valid))
            if each.nullable:
                parts.append("null" if each.nullable == each.present else f"null {range_text(each.nullable, valid)}")
            if each.tagged:
                whole = each.tagged == each.present
                parts.append(f"tag {each.tag}" if whole else f"tag {each.tag} {range_text(each.tagged, valid)}")
            if each.plain:
                parts.append("plain")
            if each.default is not None:
                parts.append(f"= {each.default}")
            yield "  " * depth + " ".join(parts)
            if each.type.removeprefix("[]") not in repeated:
                yield from lines(each.fields, each.present, depth + 1)

    yield from lines(fields, valid, 1)
    for name, inner in repeated.items():
        yield f"  struct {name}"
        yield from lines(inner, frozenset().union(*(each.present for each in inner)), 2)


def repeated_structs(fields: list[Field]) -> dict[str, list[Field]]:
    """The structs that stand in several places of a message, with the fields and versions of all places."""
    places: dict[str, list[list[Field]]] = {}

    def visit(fields: list[Field]) -> None:
        for each in fields:
            if each.is_struct:
                places.setdefault(each.type.removeprefix("[]"), []).append(each.fields)
                visit(each.fields)

    visit(fields)
    return {name: functools.reduce(merge, found) for name, found in places.items() if len(found) > 1}


def combined(newest: dict[str, Json], oldest: dict[str, Json], name: str) -> list[str]:
    """The notation of one message over both releases, checked version by version against each of them."""
    sources = [(newest.get(name), False), (oldest.get(name), True)]
    known = [(m, valid_versions(m, stable_only=stable)) for m, stable in sources if m is not None]
    known = [(m, valid) for m, valid in known if valid]
    if not known:
        return []
    message, valid = known[0]
    fields = read_fields(message, valid)
    for older, older_valid in known[1:]:
        fields = merge(fields, read_fields(older, older_valid - valid))
        valid |= older_valid
        for version in older_valid:
            if layout(fields, version) != layout(read_fields(older, older_valid), version):
                raise ValueError(f"{name} v{version}: {OLDEST} and the merged definition differ")
    for version in known[0][1]:
        if layout(fields, version) != layout(read_fields(*known[0]), version):
            raise ValueError(f"{name} v{version}: {NEWEST} and the merged definition differ")
    if name in OWN_TOPIC_IDS:
        add_topic_id(fields, OWN_TOPIC_IDS[name], versions(message["flexibleVersions"], valid))
    return list(notation(message, fields, valid))


def file_name(message: Json) -> str:
    if message["type"] in ("request", "response"):
        base = re.sub(r"(Request|Response)$", "", message["name"])
        return f"k{message['apiKey']:03}_{snake_case(base)}.schema"
    return "headers.schema" if message["type"] == "header" else "data.schema"


def place(message: Json) -> tuple[str, object]:
    """What stays when a message gets another name."""
    return message["type"], message.get("apiKey", message["name"])


def main() -> None:
    newest, oldest = definitions("kafka-clients", NEWEST), definitions("kafka-clients", OLDEST)
    group = definitions("kafka-group-coordinator", NEWEST)
    newest |= {name: group[name] for name in GROUP_RECORDS}
    share = definitions("kafka-share-coordinator", NEWEST)
    newest |= {name: share[name] for name in SHARE_RECORDS}
    known = oldest | newest
    files: dict[str, list[str]] = {}
    places = {place(message) for message in newest.values()}
    renamed = {name for name, message in oldest.items() if name not in newest and place(message) in places}
    order = sorted(known.keys() - renamed, key=lambda name: (file_name(known[name]), name.endswith("Response"), name))
    for name in order:
        lines = combined(newest, oldest, name)
        if lines:
            files.setdefault(file_name(known[name]), []).append("\n".join(lines) + "\n")
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.schema"):
        old.unlink()
    for name, messages in files.items():
        (FOLDER / name).write_text("\n".join(messages))


if __name__ == "__main__":
    main()

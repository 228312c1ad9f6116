"""How clients name the topics of each request: by id as soon as Kafka's protocol has ids, by name until clients know
the ids, and only by name if Kafka has nothing else."""

from __future__ import annotations

import pytest

from pybroker import native

Versions = tuple[int, int] | None
"""The first and the last version that is served."""

BOTH: dict[str, tuple[Versions, Versions]] = {
    "Produce": ((0, 12), (13, 13)),
    "Fetch": ((4, 12), (13, 18)),
    "Metadata": ((0, 13), (10, 13)),
    "OffsetCommit": ((1, 9), (10, 10)),
    "OffsetFetch": ((1, 9), (10, 10)),
    "DeleteTopics": ((0, 6), (6, 6)),
    "TxnOffsetCommit": ((0, 5), (6, 6)),
    # Requests of pybroker's own, about one topic each.
    "TruncateTopics": ((0, 0), (0, 0)),
    "DescribeTopicHistory": ((0, 0), (0, 0)),
    "DescribeDeletions": ((0, 1), (0, 1)),
    "DeleteOffsets": ((0, 0), (0, 0)),
    # By an id in a tagged field of pybroker, in flexible versions.
    "ListOffsets": ((0, 11), (6, 11)),
    "DeleteRecords": ((0, 2), (2, 2)),
    "OffsetForLeaderEpoch": ((0, 4), (4, 4)),
    "AddPartitionsToTxn": ((0, 3), (3, 3)),  # from v4 on, only between brokers, in another field
    "WriteTxnMarkers": ((0, 2), (1, 2)),
    "AlterReplicaLogDirs": ((0, 2), (2, 2)),
    "DescribeLogDirs": ((0, 5), (2, 5)),
    "CreatePartitions": ((0, 3), (2, 3)),
    "ElectLeaders": ((0, 2), (2, 2)),
    "AlterPartitionReassignments": ((0, 1), (0, 1)),
    "ListPartitionReassignments": ((0, 0), (0, 0)),
    "DescribeProducers": ((0, 0), (0, 0)),
    "DescribeConfigs": ((0, 4), (4, 4)),
    "AlterConfigs": ((0, 2), (2, 2)),
    "IncrementalAlterConfigs": ((0, 1), (1, 1)),
}
BY_ID_ONLY = {
    "ConsumerGroupHeartbeat", "UndeleteTopics", "PurgeTopics", "IngestBegin", "IngestAppend", "IngestCommit",
    "IngestAbort", "ShareFetch", "ShareAcknowledge",
}  # fmt: skip
BY_NAME_ONLY = {
    "CreateTopics",
    "OffsetDelete",
    "DescribeTopicPartitions",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "DescribeQuorum",  # its only topic is __cluster_metadata
    "StreamsGroupHeartbeat",
}
NAMES = {"topic", "name", "topic_name", "topic_names", "resource_name"}


def ways(api: native.ApiInfo) -> tuple[Versions, Versions]:
    """Return the served versions that name topics by name, and those by id."""
    schema = native.message_schema(f"{api.name}Request")
    assert schema is not None
    inside = {field.type_name.removeprefix("[]"): field.versions for field in schema.structs[0].fields}
    found: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for struct in schema.structs:
        names = {field.name for field in struct.fields}
        about_topics = "Topic" in struct.name.partition("_")[2] or names & {"topic_names", "topic_id"}
        if not about_topics or struct.name.endswith("Config"):
            continue
        for field in struct.fields:
            if field.name in NAMES or field.name == "topic_id":
                spans = [field.versions, inside.get(struct.name, field.versions), (api.min_version, api.max_version)]
                first, last = max(span[0] for span in spans), min(span[1] for span in spans)
                if first <= last:
                    found[field.name == "topic_id"].append((first, last))
    by_name, by_id = ((min(one)[0], max(last for _, last in one)) if one else None for one in found.values())
    return by_name, by_id


@pytest.mark.checklist(213, "D2", "D3", "D39")
def test_each_request_goes_by_what_it_may() -> None:
    found = {api.name: ways(api) for api in native.api_table() if api.served}
    about_topics = {name: way for name, way in found.items() if way != (None, None)}
    assert {name for name, (by_name, _) in about_topics.items() if by_name is None} == BY_ID_ONLY
    assert {name for name, (_, by_id) in about_topics.items() if by_id is None} == BY_NAME_ONLY
    assert {name: way for name, way in about_topics.items() if None not in way} == BOTH

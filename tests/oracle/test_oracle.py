"""The schemas compared with Kafka: classes from its published jars read pybroker's messages and write messages that
pybroker reads."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from pybroker import native
from tests.support.java import compiled, java_command
from tests.support.maven import jars
from tests.wire.random_messages import RandomMessages, versions

MESSAGES_A_VERSION = 12
SOURCE = Path(__file__).with_name("Oracle.java")
SLF4J = ("org.slf4j:slf4j-nop:1.7.36", ())
GROUP_RECORDS = {
    **{
        name: name
        for name in native.message_names()
        if name.startswith(("ConsumerGroup", "GroupMetadata", "OffsetCommit", "Share", "StreamsGroup"))
        and name.endswith(("Key", "Value"))
    },
    # The messages have pybroker's own tags, which Kafka keeps.
    "StoredOffset": "OffsetCommitValue",
    "StoredGroup": "GroupMetadataValue",
}
METADATA_RECORDS = (
    "AccessControlEntryRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "FeatureLevelRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
)
RELEASES = {
    "4.4.0": (
        ("org.apache.kafka:kafka-clients:4.4.0", ()),
        ("org.apache.kafka:kafka-group-coordinator:4.4.0", ("*:*",)),
        ("org.apache.kafka:kafka-share-coordinator:4.4.0", ("*:*",)),
        ("org.apache.kafka:kafka-metadata:4.4.0", ("*:*",)),
        SLF4J,
    ),
    "3.9.2": (("org.apache.kafka:kafka-clients:3.9.2", ()), SLF4J),
}


class Oracle:
    """Kafka's classes of one release."""

    def __init__(self, release: str) -> None:
        self._class_path = compiled(SOURCE, jars(RELEASES[release]))

    def apis(self) -> dict[str, range]:
        """Return the stable versions of every API of the release."""
        done = subprocess.run(
            java_command(self._class_path, "Oracle"), capture_output=True, text=True, check=True, timeout=300
        )
        rows = (line.split() for line in done.stdout.splitlines())
        return {name: range(int(lowest), int(highest) + 1) for name, lowest, highest in rows}

    def rewrite(self, bodies: list[tuple[str, int, bytes]]) -> list[bytes | str]:
        """For each (message, version, body), return what Kafka's class writes after reading it, or its error."""
        frames = []
        for name, version, body in bodies:
            java_name = java_class(name).encode()
            frames.append(struct.pack(">H", len(java_name)) + java_name + struct.pack(">hi", version, len(body)) + body)
        done = subprocess.run(
            java_command(self._class_path, "Oracle", ["rewrite"]),
            input=b"".join(frames), capture_output=True, check=True, timeout=300,
        )  # fmt: skip
        answers: list[bytes | str] = []
        place = 0
        while place < len(done.stdout):
            verdict, length = struct.unpack_from(">Bi", done.stdout, place)
            content = done.stdout[place + 5 : place + 5 + length]
            answers.append(content if verdict == 0 else content.decode())
            place += 5 + length
        assert len(answers) == len(bodies), done.stderr.decode()
        return answers


def java_class(name: str) -> str:
    if name.startswith(("ShareSnapshot", "ShareUpdate")):
        return f"org.apache.kafka.coordinator.share.generated.{name}"
    if name in GROUP_RECORDS:
        return f"org.apache.kafka.coordinator.group.generated.{GROUP_RECORDS[name]}"
    if name in METADATA_RECORDS:
        return f"org.apache.kafka.common.metadata.{name}"
    data = "Data" if name.endswith(("Request", "Response", "Header")) else ""
    return f"org.apache.kafka.common.message.{name}{data}"


@pytest.fixture(scope="module", params=sorted(RELEASES))
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return Oracle(request.param)


def test_every_stable_version_of_every_message_is_known(oracle: Oracle) -> None:
    ours = {name: versions(name) for name in native.message_names()}
    # Kafka renamed key 74, whose version 0 is the same.
    renamed = {"ListClientMetricsResources": "ListConfigResources"}
    for api, theirs in oracle.apis().items():
        for suffix in ("Request", "Response"):
            known = ours[renamed.get(api, api) + suffix]
            assert set(theirs) <= set(known), f"{api}{suffix}"


def test_bytes_are_equal_in_both_directions(oracle: Oracle) -> None:
    maker = RandomMessages(seed=516)
    apis = oracle.apis()
    made = []
    for name in native.message_names():
        api = name.removesuffix("Request").removesuffix("Response")
        known = apis.get(api, range(0)) if name != api else versions(name)
        for version in versions(name):
            if version in known:
                made += [(name, version, maker.make(name, version)) for _ in range(MESSAGES_A_VERSION)]
    bodies = [(name, version, native.encode(message, version)) for name, version, message in made]
    answers = oracle.rewrite(bodies)
    pairs = set()
    for (name, version, message), (_, _, body), answer in zip(made, bodies, answers, strict=True):
        if isinstance(answer, str) and ("ClassNotFound" in answer or "no version" in answer):
            # Skip data of a newer release; requests and responses were chosen by the APIs of the release.
            assert not name.endswith(("Request", "Response")), (name, answer)
            continue
        assert answer == body, f"{name} v{version} {message}"
        pairs.add((name, version))
        assert _decode(name, version, answer) == message, f"{name} v{version}"
    assert len(pairs) > 600


def _decode(name: str, version: int, body: bytes) -> object:
    schema = native.message_schema(name)
    assert schema is not None
    kind, key = schema.kind, schema.api_key
    if key is None:
        return native.decode_data(name, version, body)
    return native.decode(key, version, body, kind == "request")

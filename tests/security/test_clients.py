"""Real clients: the three mechanisms, wrong passwords, and operations that ACL entries deny."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.broker.security.authorizer import AclOperation, ResourceType
from pybroker.protocol import messages as m
from tests.security import python_clients
from tests.security.kit import ROOT, call, create_acls, create_topics, entry, login, password_of, secure_broker
from tests.support.go import built
from tests.support.java import compiled, java_command
from tests.support.kafka_tools import run_tool
from tests.support.maven import TOOLS, jars

HERE = Path(__file__).parent
TOPIC, GROUP = "guarded", "readers"
SCRAM_PASSWORD = "pencil and paper"
GOOD = ("PLAIN:good:good-secret", f"SCRAM-SHA-256:good:{SCRAM_PASSWORD}", f"SCRAM-SHA-512:good:{SCRAM_PASSWORD}")
STRANGERS = ("PLAIN:good:wrong", "SCRAM-SHA-512:good:wrong")
NO_RIGHT = "PLAIN:weak:weak-secret"
"""This user may describe the topic, but not read or write it."""
NO_GROUP = "PLAIN:lonely:lonely-secret"
"""This user may read and write the topic, but not read in any group."""
LOGINS = (*GOOD, *STRANGERS, NO_RIGHT, NO_GROUP)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker(["good", "weak", "lonely"]) as broker:
        root = login(broker, ROOT)
        create_topics(root, TOPIC)
        topic, op = ResourceType.TOPIC, AclOperation
        create_acls(
            root,
            entry("good", op.READ, topic, TOPIC),
            entry("good", op.WRITE, topic, TOPIC),
            entry("good", op.READ, ResourceType.GROUP, GROUP, prefixed=True),
            entry("weak", op.DESCRIBE, topic, TOPIC),
            # Without permission to write to a topic, an idempotent producer would be refused before this error.
            entry("weak", op.WRITE, topic, "elsewhere"),
            entry("weak", op.READ, ResourceType.GROUP, "*"),
            entry("lonely", op.READ, topic, TOPIC),
            entry("lonely", op.WRITE, topic, TOPIC),
        )
        admin = broker.data_dir.parent / "admin.properties"
        admin.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{ROOT}" password="{password_of(ROOT)}";\n'
        )
        config = ("--bootstrap-server", broker.bootstrap, "--command-config", str(admin))
        secrets = ",".join(
            f"{one}=[iterations=8192,password={SCRAM_PASSWORD}]" for one in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        )
        user = ("--entity-type", "users", "--entity-name", "good")
        run_tool("kafka-configs", [*config, "--alter", "--add-config", secrets, *user])
        (described,) = call(root, m.DescribeUserScramCredentialsRequest(users=None)).results
        infos = [(one.mechanism, one.iterations) for one in described.credential_infos]
        assert (described.user, infos) == ("good", [(1, 8192), (2, 8192)])
        yield broker


def check(outcomes: Sequence[tuple[str, str]], stranger: str, topic: str, group: str) -> None:
    """Check the expected result of each login; errors are compared by a part of their names."""
    found = dict(zip(LOGINS, outcomes, strict=True))
    for one in GOOD:
        assert found[one] == ("ok", "ok"), one
    for one in STRANGERS:
        for part in found[one]:
            assert stranger in part, found
    assert topic in found[NO_RIGHT][0]
    assert topic in found[NO_RIGHT][1]
    assert found[NO_GROUP][0] == "ok"
    assert group in found[NO_GROUP][1]


@pytest.mark.checklist("G13", "H1")
def test_confluent_kafka(broker: Broker) -> None:
    outcomes = [
        python_clients.confluent(broker.bootstrap, TOPIC, f"{GROUP}-c{number}", one)
        for number, one in enumerate(LOGINS)
    ]
    check(outcomes, "_AUTHENTICATION", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")


@pytest.mark.checklist("G13", "H1")
def test_kafka_python(broker: Broker) -> None:
    outcomes = [
        python_clients.kafka_python(broker.bootstrap, TOPIC, f"{GROUP}-k{number}", one)
        for number, one in enumerate(LOGINS)
    ]
    check(outcomes, "KafkaTimeoutError", "TopicAuthorizationFailedError", "GroupAuthorizationFailedError")


@pytest.mark.checklist("G13", "H1")
def test_aiokafka(broker: Broker) -> None:
    outcomes = [
        python_clients.aiokafka_client(broker.bootstrap, TOPIC, f"{GROUP}-a{number}", one)
        for number, one in enumerate(LOGINS)
    ]
    check(outcomes, "", "TopicAuthorizationFailedError", "GroupAuthorizationFailedError")


def outcomes_of(
    command: Sequence[str], bootstrap: str, group: str, logins: Sequence[str] = LOGINS
) -> list[tuple[str, str]]:
    """Return a program's output about its writes and reads, for each login."""
    done = subprocess.run(
        [*command, bootstrap, TOPIC, group, *logins],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.partition("\t") for line in done.stdout.splitlines() if "\t" in line]
    return [(produced, consumed) for produced, _, consumed in rows]


@pytest.mark.checklist("G13", "H1")
def test_java(broker: Broker) -> None:
    source = HERE / "java" / "SaslClient.java"
    command = java_command(compiled(source, jars(TOOLS)), "SaslClient")
    outcomes = outcomes_of(command, broker.bootstrap, f"{GROUP}-j")
    check(outcomes, "SaslAuthenticationException", "TopicAuthorizationException", "GroupAuthorizationException")


@pytest.mark.checklist("G13", "H1")
def test_franz_go(broker: Broker) -> None:
    outcomes = outcomes_of([str(built(HERE / "franz"))], broker.bootstrap, f"{GROUP}-f")
    check(outcomes, "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")


@pytest.mark.checklist("H1")
def test_kafka_acls(broker: Broker) -> None:
    admin = str(broker.data_dir.parent / "admin.properties")
    config = ["--bootstrap-server", broker.bootstrap, "--command-config", admin]
    resource = ["--topic", "tool-", "--resource-pattern-type", "prefixed"]
    run_tool("kafka-acls", [*config, "--add", "--allow-principal", "User:tool", "--producer", *resource])
    root = login(broker, ROOT)
    request = m.DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="tool-",
        pattern_type_filter=4,
        principal_filter="User:tool",
        host_filter="*",
        operation=1,
        permission_type=1,
    )
    (found,) = call(root, request).resources
    assert {acl.operation for acl in found.acls} == {AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE}
    shown = run_tool("kafka-acls", [*config, "--list", *resource])
    assert "name=tool-, patternType=PREFIXED" in shown
    run_tool("kafka-acls", [*config, "--remove", "--force", *resource])
    assert call(root, request).resources == []


@pytest.mark.checklist("G13")
def test_kafka_configs(broker: Broker) -> None:
    """The tool sets a user's password; the test checks that the user has credentials."""
    admin = str(broker.data_dir.parent / "admin.properties")
    config = ["--bootstrap-server", broker.bootstrap, "--command-config", admin]
    user = ["--entity-type", "users", "--entity-name", "by-tool"]
    run_tool("kafka-configs", [*config, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=p]"])
    asked = [m.DescribeUserScramCredentialsRequest_UserName(name="by-tool")]
    (found,) = call(login(broker, ROOT), m.DescribeUserScramCredentialsRequest(users=asked)).results
    assert [(one.mechanism, one.iterations) for one in found.credential_infos] == [(1, 8192)]
    assert "SCRAM-SHA-256=iterations=8192" in run_tool("kafka-configs", [*config, "--describe", *user])

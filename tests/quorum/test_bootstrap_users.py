"""Users that are added before the first start: brokers and clients of the new cluster log in as them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.broker.quorum.bootstrap_users import FILE
from pybroker.cli import cli
from pybroker.client import blocking
from pybroker.client.client_errors import BrokerConnectionError, KafkaError
from tests.quorum.scene import QuorumBroker, Scene, until

MECHANISM = "SCRAM-SHA-256"
REFUSED = (KafkaError, BrokerConnectionError)
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class LoginScene(Scene):
    """Three brokers whose listeners both require SCRAM."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for broker in self.brokers.values():
            broker.settings |= {
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,BETWEEN:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": MECHANISM,
                "sasl.mechanism.inter.broker.protocol": MECHANISM,
                f"listener.name.between.{MECHANISM.lower()}.sasl.jaas.config": (
                    f'{LOGIN_MODULE} required username="broker" password="of-broker";'
                ),
                "super.users": "User:broker",
                "connection.failed.authentication.delay.ms": "1",
            }

    def admin(self, user: str, password: str) -> blocking.AdminClient:
        return blocking.AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": MECHANISM,
                "sasl.username": user,
                "sasl.password": password,
            }
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[LoginScene]:
    with LoginScene(tmp_path) as scene:
        yield scene


def users(broker: QuorumBroker, *arguments: str, password: str = "") -> Result:
    command = broker.command()
    sets = [part for at, word in enumerate(command) if word == "--set" for part in ("--set", command[at + 1])]
    return CliRunner().invoke(cli, ["users", *arguments, *sets], input=password)


def add(broker: QuorumBroker, user: str) -> Result:
    return users(broker, "add", user, "--mechanism", MECHANISM, "--password-file", "-", password=f"of-{user}")


def test_brokers_and_clients_log_in_as_users_of_before_the_start(scene: LoginScene) -> None:
    founder, other = scene.brokers[1], scene.brokers[2]
    for user in ("broker", "admin", "gone"):
        added = add(founder, user)
        assert added.exit_code == 0, added.output
    assert users(founder, "remove", "gone").exit_code == 0
    listed = users(founder, "list").output
    assert "broker" in listed
    assert "gone" not in listed
    file = founder.data_dir / FILE
    assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    refused = add(other, "admin")
    assert refused.exit_code == 1
    assert "broker 1 founds the cluster, not broker 2: run the command with the settings of broker 1" in refused.output
    addresses = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "127.0.0.1:1"}
    before, other.settings = other.settings, {**other.settings, **addresses}
    refused = add(other, "admin")
    assert refused.exit_code == 1
    assert "broker 2 joins a cluster (controller.quorum.bootstrap.servers)" in refused.output
    other.settings = before

    for broker in scene.brokers.values():
        broker.launch()
    until(lambda: served(scene, "admin") == {1, 2, 3})
    assert not file.exists()
    with pytest.raises(REFUSED), scene.admin("gone", "of-gone") as admin:
        admin.describe_cluster()
    refused = add(founder, "late")
    assert refused.exit_code == 1
    assert "belongs to a cluster already: start the cluster, and use one of its brokers" in refused.output


def served(scene: LoginScene, user: str) -> set[int]:
    try:
        with scene.admin(user, f"of-{user}") as admin:
            return {node.id for node in admin.describe_cluster().nodes}
    except REFUSED:
        return set()

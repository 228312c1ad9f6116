"""`pybroker groups` names each group's protocol and the members that prevent a reset."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import unique


def run(broker: BrokerProcess, *words: str) -> Result:
    return CliRunner().invoke(cli, ["-b", broker.bootstrap, "groups", *words])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_reset_that_members_prevent(broker: BrokerProcess, protocol: str) -> None:
    group, topic = unique("group"), unique("topic")
    settings = {"bootstrap.servers": broker.bootstrap}
    with blocking.AdminClient(settings) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with blocking.Consumer({**settings, "group.id": group, "group.protocol": protocol}) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.2)
        consumer.commit({TopicPartition(topic, 0): 0})
        listed = json.loads(run(broker, "list", "--json").stdout)
        assert {"group": group, "state": "Stable", "protocol": protocol} in listed
        shown = run(broker, "reset-offsets", group, "--to-earliest", "--dry-run")
        assert shown.exit_code == 0
        assert "Use --execute to apply this, after its member has left the group." in shown.stderr
        refused = run(broker, "reset-offsets", group, "--to-earliest", "--execute")
        assert refused.exit_code == 1
        assert refused.stderr.count("\n") == 1
    assert "Use --execute to apply this.\n" in run(broker, "reset-offsets", group, "--to-earliest").stderr
    assert run(broker, "reset-offsets", group, "--to-earliest", "--execute").exit_code == 0

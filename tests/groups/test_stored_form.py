"""Kafka's own tools read what is stored in `__consumer_offsets`."""

from __future__ import annotations

import re

from tests.conftest import StartBroker
from tests.groups.kit import Member, create_topic, fill, shared_out, unique, until
from tests.support.kafka_tools import run_tool


def test_the_dump_tool_decodes_offsets_and_groups(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    fill(broker.bootstrap, topic, 2, 7)
    with Member(broker.bootstrap, group, topic, {"group.instance.id": "keeper"}) as member:
        until(lambda: shared_out([member], 2) and len(member.values) == 14, "everything is read")
        member.commit()
    broker.stop()
    logs = sorted(broker.data_dir.glob("__consumer_offsets-*/*.log"))
    dump = run_tool("kafka-dump-log", ["--files", ",".join(map(str, logs)), "--offsets-decoder"])
    assert "isvalid: false" not in dump
    # The decoder prints what it cannot read as bytes, without these fields.
    commits = re.findall(r'"topic":"(\S+?)","partition":(\d)\}.*?payload: \{.*?"offset":(\d+)', dump)
    assert set(commits) == {(topic, "0", "7"), (topic, "1", "7")}
    assert f'"group":"{group}"' in dump
    assert '"groupInstanceId":"keeper"' in dump
    assert '"protocolType":"consumer"' in dump

"""Begin, append and commit need WRITE on the topic, abort needs WRITE or ALTER. A listing shows topics that the user
may describe."""

from __future__ import annotations

from pathlib import Path

import pytest

import pybroker
from pybroker.broker.metadata.acl_nodes import AclOperation, PatternType, ResourceType
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import CreateAclsRequest, CreateAclsRequest_AclCreation
from tests.ingest.client import ABSENT, COMMITTED, Attempt, IngestClient, batch

ALLOW = 3


def allow(client: IngestClient, operation: AclOperation, topic: str) -> None:
    entry = CreateAclsRequest_AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )
    [result] = client.call(CreateAclsRequest(creations=[entry]), 3).results
    assert result.error_code == 0, result


@pytest.mark.checklist("A9")
def test_who_may_do_what(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    admin = {**settings, "super.users": "User:ANONYMOUS"}
    epochs = {}
    with pybroker.Broker(admin, data_dir=tmp_path / "data") as broker, IngestClient(broker.port) as client:
        ids = {name: client.create(name, 1) for name in ("mine", "theirs", "altered")}
        for name, topic_id in ids.items():
            epochs[name] = client.begin(topic_id, "job").epoch
        allow(client, AclOperation.WRITE, "mine")
        allow(client, AclOperation.ALTER, "altered")
    common = {**settings, "super.users": "User:admin"}
    with pybroker.Broker(common, data_dir=tmp_path / "data") as broker, IngestClient(broker.port) as client:
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for name in ("theirs", "altered"):
            topic_id = ids[name]
            assert client.begin(topic_id, "job").error_code == refused
            append = client.append_raw(topic_id, "job", epochs[name], Attempt(0), [(0, 0, batch(["x"]))])
            assert append.error_code == refused
            assert client.commit(topic_id, "job", epochs[name], []).error_code == refused
        assert client.abort(ids["theirs"], "job").error_code == refused
        assert client.abort(ids["altered"], "job").state == ABSENT
        attempt = Attempt(0)
        assert [one.topic_name for one in client.listing()] == ["mine"]
        client.append(ids["mine"], "job", epochs["mine"], attempt, 0, ["x"])
        assert client.commit(ids["mine"], "job", epochs["mine"], [attempt]).state == COMMITTED

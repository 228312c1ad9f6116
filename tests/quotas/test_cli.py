"""`pybroker quotas`, and the same operations by AdminClient."""

from __future__ import annotations

import json
import subprocess
import sys

from pybroker.client import ClientQuota, QuotaEntity, blocking
from tests.support.brokers import BrokerProcess


def test_quotas_are_set_listed_and_removed(broker: BrokerProcess) -> None:
    def pybroker(*arguments: str, code: int = 0) -> str:
        call = [sys.executable, "-m", "pybroker", "quotas", *arguments, "--bootstrap-server", broker.bootstrap]
        done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    who = ("--user", "cli-user", "--client-id-default")
    pybroker("--alter", "producer_byte_rate=1000", "request_percentage=12.5", *who)
    (first, second) = json.loads(pybroker("list", *who, "--json"))
    assert first == {
        "user": "cli-user",
        "client-id": "<default>",
        "ip": None,
        "quota": "producer_byte_rate",
        "value": 1000.0,
    }
    assert (second["quota"], second["value"]) == ("request_percentage", 12.5)
    pybroker("remove", "producer_byte_rate", *who)
    entity = QuotaEntity(user="cli-user", client_id="")
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        expected = ClientQuota({"client-id": None, "user": "cli-user"}, {"request_percentage": 12.5})
        assert admin.describe_client_quotas(entity) == [expected]
        assert expected in admin.describe_client_quotas()
    pybroker("remove", *who)
    assert json.loads(pybroker("list", *who, "--json")) == []
    assert "No entity given" in pybroker("set", "producer_byte_rate=1", code=2)
    assert "Unknown quota" in pybroker("set", "bytes=1", *who, code=2)

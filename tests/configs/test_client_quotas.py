"""Quotas of users, client ids and addresses, stored and shown, by Kafka's tool and over a socket. Every case also holds
for Apache Kafka (`--broker=kafka`, whose brokers show a change a moment later), except those marked otherwise."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import ToolError, run_tool
from tests.topic_ids.lives import until
from tests.wire.client import WireClient

Entity = dict[str, str | None]
EXACT, DEFAULT, ANY = 0, 1, 2
OK = 0


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.port) as client:
        yield client


def altered(
    wire: WireClient, *entries: tuple[Entity, dict[str, float | None]], validate_only: bool = False, version: int = 1
) -> list[int]:
    """Change quotas; return the error codes. None removes a quota."""
    request = m.AlterClientQuotasRequest(
        entries=[
            m.AlterClientQuotasRequest_EntryData(
                entity=[
                    m.AlterClientQuotasRequest_EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    m.AlterClientQuotasRequest_OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in entries
        ],
        validate_only=validate_only,
    )
    answer = wire.call(request, version)
    assert all((one.error_code == 0) == (one.error_message is None) for one in answer.entries)
    return [one.error_code for one in answer.entries]


def described(
    wire: WireClient, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Entity, dict[str, float]]] | int:
    """Return entities and their quotas, or the error code."""
    parts = [
        m.DescribeClientQuotasRequest_ComponentData(entity_type=kind, match_type=match, match=name)
        for kind, match, name in components
    ]
    answer = wire.call(m.DescribeClientQuotasRequest(components=parts, strict=strict), version)
    if answer.error_code:
        assert answer.error_message
        return int(answer.error_code)
    found = [
        ({part.entity_type: part.entity_name for part in one.entity}, {value.key: value.value for value in one.values})
        for one in answer.entries or []
    ]
    return sorted(found, key=str)


def unique(text: str) -> str:
    return f"{text}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("version", [0, 1])
def test_each_kind_of_entity_has_its_quotas(wire: WireClient, version: int) -> None:
    user, client = unique("us/er ~*"), unique("a.b")
    rates: dict[str, float | None] = {
        "producer_byte_rate": 1024.0,
        "consumer_byte_rate": 2048.0,
        "request_percentage": 12.5,
        "controller_mutation_rate": 0.5,
    }
    entities: list[Entity] = [{"user": user}, {"client-id": client}, {"client-id": client, "user": user}]
    entities += [{"client-id": None, "user": user}, {"client-id": client, "user": None}]
    assert altered(wire, *((entity, rates) for entity in entities), version=version) == [OK] * 5
    for_user = sorted([(one, rates) for one in entities if one.get("user") == user], key=str)
    until(lambda: described(wire, ("user", EXACT, user), version=version) == for_user)
    until(lambda: described(wire, ("user", EXACT, user), strict=True, version=version) == [({"user": user}, rates)])
    both = ("user", EXACT, user), ("client-id", EXACT, client)
    until(lambda: described(wire, *both, version=version) == [({"client-id": client, "user": user}, rates)])
    any_client = sorted([(one, rates) for one in entities[2:4]], key=str)
    until(lambda: described(wire, ("user", EXACT, user), ("client-id", ANY, None), version=version) == any_client)
    default = ("user", DEFAULT, None), ("client-id", EXACT, client)
    until(lambda: described(wire, *default, version=version) == [(entities[4], rates)])
    assert altered(wire, (entities[0], {"request_percentage": None, "producer_byte_rate": 7.0})) == [OK]
    left = {name: value for name, value in rates.items() if name != "request_percentage"} | {"producer_byte_rate": 7.0}
    until(lambda: described(wire, both[0], strict=True) == [(entities[0], left)])
    assert altered(wire, *((entity, dict.fromkeys(rates)) for entity in entities)) == [OK] * 5
    until(lambda: described(wire, both[0]) == [])
    until(lambda: described(wire, both[1]) == [])


def test_addresses_have_a_quota_of_their_own(wire: WireClient) -> None:
    address: Entity = {"ip": "10.1.2.3"}
    local: Entity = {"ip": "localhost"}
    rate: dict[str, float | None] = {"connection_creation_rate": 20.0}
    assert altered(wire, (address, rate), ({"ip": None}, rate), ({"ip": "::1"}, rate), (local, rate)) == [OK] * 4
    everybody = [(one, rate) for one in ({"ip": None}, local, address, {"ip": "::1"})]
    until(lambda: described(wire, ("ip", ANY, None)) == sorted(everybody, key=str))
    until(lambda: described(wire, ("ip", DEFAULT, None)) == [({"ip": None}, rate)])
    everything = described(wire)
    assert isinstance(everything, list)
    assert [one for one in everything if "ip" in one[0]] == sorted(everybody, key=str)
    until(lambda: described(wire, strict=True) == [])
    assert altered(wire, *((entity, dict.fromkeys(rate)) for entity, _ in everybody)) == [OK] * 4
    until(lambda: described(wire, ("ip", ANY, None)) == [])


REFUSED: list[tuple[Entity, dict[str, float | None]]] = [
    ({}, {"producer_byte_rate": 1.0}),
    ({"group": "g"}, {"producer_byte_rate": 1.0}),
    ({"user": ""}, {"producer_byte_rate": 1.0}),
    ({"user": "u", "ip": "10.1.2.3"}, {"producer_byte_rate": 1.0}),
    ({"ip": "no.such.host.invalid"}, {"connection_creation_rate": 1.0}),
    ({"ip": "10.1.2.3"}, {"producer_byte_rate": 1.0}),
    ({"ip": "10.1.2.3"}, {"connection_creation_rate": float(1 << 31)}),
    ({"ip": "10.1.2.3"}, {"connection_creation_rate": 1.5}),
    ({"user": "u"}, {"connection_creation_rate": 1.0}),
    ({"user": "u"}, {"no_such_rate": 1.0}),
    ({"user": "u"}, {"producer_byte_rate": 0.0}),
    ({"user": "u"}, {"producer_byte_rate": -1.0}),
    ({"user": "u"}, {"producer_byte_rate": 1.5}),
    ({"user": "u"}, {"producer_byte_rate": 1e30}),
]


def test_what_is_no_quota_is_refused_and_the_rest_is_taken(wire: WireClient) -> None:
    fine: tuple[Entity, dict[str, float | None]] = ({"client-id": unique("fine")}, {"producer_byte_rate": 1.0})
    for one in REFUSED:
        assert altered(wire, one) == [ErrorCode.INVALID_REQUEST], one
    assert sorted(altered(wire, REFUSED[-1], fine)) == [OK, ErrorCode.INVALID_REQUEST]
    until(lambda: described(wire, ("user", EXACT, "u")) == [])
    until(lambda: described(wire, ("client-id", EXACT, fine[0]["client-id"])) == [fine])
    gone: dict[str, float | None] = {"no_such_rate": None, "consumer_byte_rate": None, "producer_byte_rate": None}
    assert altered(wire, (fine[0], gone)) == [OK], "what is not there can be taken away"


def test_what_apache_kafka_takes_is_refused(wire: WireClient) -> None:
    """The values are not numbers, or the names are too long for a path."""
    for entity, value in (({"user": "u"}, math.nan), ({"user": "u"}, math.inf), ({"user": "u" * 256}, 1.0)):
        assert altered(wire, (entity, {"request_percentage": value})) == [ErrorCode.INVALID_REQUEST]


def test_nothing_is_kept_of_what_was_only_looked_at(wire: WireClient) -> None:
    client: Entity = {"client-id": unique("seen")}
    assert altered(wire, (client, {"producer_byte_rate": 1.0}), validate_only=True) == [OK]
    assert altered(wire, (client, {"producer_byte_rate": 0.0}), validate_only=True) == [ErrorCode.INVALID_REQUEST]
    until(lambda: described(wire, ("client-id", EXACT, client["client-id"])) == [])


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_mean_nothing(
    wire: WireClient, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert described(wire, *components) == code


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return run_tool("kafka-configs", ["--bootstrap-server", broker.bootstrap, *arguments])


def test_kafkas_tool_sets_and_shows_them(broker: BrokerProcess) -> None:
    user, client = unique("alice"), unique("app")
    of_user, of_client = ("--entity-type", "users", "--entity-name", user), ("--entity-type", "clients")
    configs(broker, *of_user, "--alter", "--add-config", "consumer_byte_rate=1024")
    configs(broker, *of_user, "--alter", "--add-config", "SCRAM-SHA-256=[password=secret]")
    configs(broker, *of_user, *of_client, "--entity-name", client, "--alter", "--add-config", "request_percentage=50")
    configs(broker, *of_client, "--entity-default", "--alter", "--add-config", "producer_byte_rate=4096")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    configs(broker, *address, "--alter", "--add-config", "connection_creation_rate=5")
    told = configs(broker, *of_user, "--describe")
    assert f"Quota configs for user-principal '{user}' are consumer_byte_rate=1024.0" in told
    assert f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=" in told
    told = configs(broker, *of_user, *of_client, "--describe")
    assert f"for user-principal '{user}', client-id '{client}' are request_percentage=50.0" in told
    told = configs(broker, *of_client, "--describe")
    assert "Quota configs for the default client-id are producer_byte_rate=4096.0" in told
    assert "for ip '127.0.0.9' are connection_creation_rate=5.0" in configs(broker, *address, "--describe")
    configs(broker, *of_user, "--alter", "--delete-config", "SCRAM-SHA-256")
    told = configs(broker, "--entity-type", "users", "--describe")
    assert f"'{user}' are consumer_byte_rate=1024.0" in told, "quotas and credentials of a user do not touch each other"
    assert "SCRAM" not in told
    configs(broker, *of_client, "--entity-default", "--alter", "--delete-config", "producer_byte_rate")
    configs(broker, *address, "--alter", "--delete-config", "connection_creation_rate")
    until(lambda: "default client-id" not in configs(broker, *of_client, "--describe"))
    with pytest.raises(ToolError, match="InvalidRequestException"):
        configs(broker, *of_user, "--alter", "--add-config", "producer_byte_rate=-1")


def test_they_are_kept(start_broker: StartBroker) -> None:
    broker = start_broker()
    user, client = unique("u"), unique("c")
    rates: dict[str, float | None] = {"request_percentage": 0.25}
    entities: list[Entity] = [{"client-id": None, "user": None}, {"client-id": client, "user": user}, {"user": user}]
    with WireClient(broker.port) as wire:
        assert altered(wire, *((entity, rates) for entity in entities)) == [OK] * 3
    broker.kill()
    broker.start()
    with WireClient(broker.port) as wire:
        until(lambda: described(wire, ("user", EXACT, user)) == sorted([(one, rates) for one in entities[1:]], key=str))
        assert altered(wire, *((entity, dict.fromkeys(rates)) for entity in entities)) == [OK] * 3
        until(lambda: described(wire, ("user", DEFAULT, None)) == [])

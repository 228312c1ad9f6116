"""Delegation tokens (KIP-48): all commands of Kafka's tool, clients that log in with a token, permissions, and expiry.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.client import AuthenticationError, blocking
from pybroker.native import BlockingClient
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.scram import ScramCredential, ScramMechanism
from tests.security.kit import ROOT, call, login, password_of, port_of, secure_broker, until
from tests.support.kafka_tools import ToolError, run_tool
from tests.wire.client import WireClient

USERS = ["alice", "bob", "carol", "dora"]
OWN_MAX = 20
SECRET = {
    "delegation.token.secret.key": "secret",
    "delegation.token.expiry.check.interval.ms": "100",
    "delegation.token.max.per.user": str(OWN_MAX),
}
SCRAM = ScramMechanism.SCRAM_SHA_512


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker(USERS, SECRET) as broker:
        yield broker


def create(client: WireClient, *renewers: str, lifetime_ms: int = -1) -> m.CreateDelegationTokenResponse:
    request = m.CreateDelegationTokenRequest(
        owner_principal_type="",
        owner_principal_name="",
        renewers=[m.CreateDelegationTokenRequest_CreatableRenewers("User", name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    answer: m.CreateDelegationTokenResponse = call(client, request)
    return answer


def test_our_own_clients_log_in_by_a_token(broker: Broker) -> None:
    """With Java's login line, in Python and in native code (`format("pybroker")`)."""
    token = create(login(broker, "alice"))
    secret = base64.b64encode(token.hmac).decode()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port_of(broker, 'SASL')}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} username="{token.token_id}" password="{secret}" tokenauth="true";',
    }
    with blocking.AdminClient(settings) as admin:
        assert admin.describe_cluster().cluster_id == broker.cluster_id
    assert BlockingClient(settings).cluster_id() == broker.cluster_id
    without = {**settings, "sasl.jaas.config": str(settings["sasl.jaas.config"]).replace('tokenauth="true"', "")}
    with blocking.AdminClient(without) as admin, pytest.raises(AuthenticationError):
        admin.describe_cluster()


def seen(client: WireClient) -> set[str]:
    """Return the ids of all tokens that a client may see."""
    answer = call(client, m.DescribeDelegationTokenRequest(owners=None))
    assert answer.error_code == 0
    return {token.token_id for token in answer.tokens}


def authenticate(client: WireClient, token_id: str, hmac: bytes) -> m.SaslAuthenticateResponse:
    """Return the last response to a login by a token."""
    assert call(client, m.SaslHandshakeRequest(mechanism=SCRAM.mechanism_name)).error_code == 0
    first = f"n={token_id},r=nonce,tokenauth=true"
    answer = call(client, m.SaslAuthenticateRequest(auth_bytes=f"n,,{first}".encode()))
    assert answer.error_code == 0, "a stranger is told nothing else"
    challenge = answer.auth_bytes.decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    salted = SCRAM.salted_password(base64.b64encode(hmac).decode(), salt, iterations)
    stored = ScramCredential.of_salted_password(SCRAM, salt, iterations, salted).stored_key
    last = f"c=biws,r={fields['r']}"
    signature = SCRAM.sign(stored, f"{first},{challenge},{last}".encode())
    proof = bytes(a ^ b for a, b in zip(SCRAM.client_key(salted), signature, strict=True))
    final: m.SaslAuthenticateResponse = call(
        client, m.SaslAuthenticateRequest(auth_bytes=f"{last},p={base64.b64encode(proof).decode()}".encode())
    )
    return final


def test_who_has_a_token_is_its_owner_and_gets_no_other(broker: Broker) -> None:
    alice = login(broker, "alice")
    token = create(alice, "bob")
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
    with WireClient(port_of(broker, "SASL")) as client:
        done = authenticate(client, token.token_id, token.hmac)
        assert done.error_code == 0
        assert 0 < done.session_lifetime_ms <= 86_400_000, "it ends with the token"
        assert create(client).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        described = call(client, m.DescribeDelegationTokenRequest(owners=None))
        assert described.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert authenticate(client, token.token_id, token.hmac).error_code == 0, "it authenticates again"
    for token_id, hmac in ((token.token_id, b"wrong"), ("no such", token.hmac)):
        with WireClient(port_of(broker, "SASL")) as client:
            assert authenticate(client, token_id, hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with WireClient(port_of(broker, "PLAINTEXT")) as stranger:
        assert create(stranger).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_owner_and_renewers_renew_it_within_its_life_and_end_it(broker: Broker) -> None:
    alice, bob, carol = (login(broker, user) for user in USERS[:3])
    token = create(alice, "bob", lifetime_ms=3_600_000)
    assert token.expiry_timestamp_ms == token.max_timestamp_ms == token.issue_timestamp_ms + 3_600_000
    assert token.token_id in seen(alice) & seen(bob) & seen(login(broker, ROOT))
    assert token.token_id not in seen(carol)
    mismatch, missing = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    def renew(client: WireClient, period_ms: int, hmac: bytes = token.hmac) -> tuple[int, int]:
        answer = call(client, m.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(client: WireClient, period_ms: int) -> int:
        return int(call(client, m.ExpireDelegationTokenRequest(token.hmac, period_ms)).error_code)

    assert renew(carol, 1_000)[0] == expire(carol, -1) == mismatch
    assert renew(alice, 1_000, b"x")[0] == missing
    assert renew(bob, 1 << 40) == (0, token.max_timestamp_ms)
    assert expire(bob, 600_000) == 0
    with WireClient(port_of(broker, "SASL")) as client:
        assert authenticate(client, token.token_id, token.hmac).error_code == 0
        assert expire(alice, -1) == 0
        assert expire(alice, -1) == missing
        assert token.token_id not in seen(alice)
        assert authenticate(client, token.token_id, token.hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_longest_lifetime_of_the_settings() -> None:
    longest = (1 << 63) - 1
    settings = {f"delegation.token.{name}.ms": longest for name in ("max.lifetime", "expiry.time")}
    with secure_broker(USERS, {**SECRET, **settings}) as broker:
        alice = login(broker, "alice")
        token = create(alice)
        assert (token.error_code, token.expiry_timestamp_ms, token.max_timestamp_ms) == (0, longest, longest)
        answer = call(alice, m.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=longest))
        assert (answer.error_code, answer.expiry_timestamp_ms) == (0, longest)
        with WireClient(port_of(broker, "SASL")) as client:
            assert authenticate(client, token.token_id, token.hmac).error_code == 0


def test_a_session_ends_with_its_token_which_is_removed(broker: Broker) -> None:
    alice = login(broker, "alice")
    token = create(alice, lifetime_ms=2_000)
    with WireClient(port_of(broker, "SASL")) as client:
        done = authenticate(client, token.token_id, token.hmac)
        assert done.error_code == 0
        assert done.session_lifetime_ms <= 2_000

        def ended() -> bool:
            try:
                call(client, m.ListGroupsRequest())
            except (OSError, EOFError):
                return True
            return False

        until(ended)
    until(lambda: token.token_id not in seen(alice))


def test_one_user_has_a_bounded_number_of_tokens(broker: Broker) -> None:
    dora = login(broker, "dora")
    tokens = [create(dora) for _ in range(OWN_MAX)]
    assert {token.error_code for token in tokens} == {0}
    assert create(dora).error_code == ErrorCode.POLICY_VIOLATION
    assert create(login(broker, "carol")).error_code == 0
    ended = m.ExpireDelegationTokenRequest(hmac=tokens[0].hmac, expiry_time_period_ms=-1)
    assert call(dora, ended).error_code == 0
    assert create(dora).error_code == 0


def test_tokens_outlive_a_restart_and_there_are_none_without_a_secret(tmp_path: Path) -> None:
    settings = {"log.dirs": str(tmp_path), **SECRET}
    with secure_broker(USERS, settings) as broker:
        token = create(login(broker, "alice"))
    with secure_broker(USERS, settings) as broker:
        assert token.token_id in seen(login(broker, "alice"))
        with WireClient(port_of(broker, "SASL")) as client:
            assert authenticate(client, token.token_id, token.hmac).error_code == 0
    with secure_broker(USERS, {"log.dirs": str(tmp_path)}) as broker:
        assert create(login(broker, "alice")).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        with WireClient(port_of(broker, "SASL")) as client:
            assert authenticate(client, token.token_id, token.hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def settings_file(folder: Path, mechanism: str, module: str, options: str) -> str:
    path = folder / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required {options};\n"
    )
    return str(path)


def test_kafkas_tool_in_all_its_commands_and_a_java_client_that_logs_in_by_a_token(
    broker: Broker, tmp_path: Path
) -> None:
    server = f"127.0.0.1:{port_of(broker, 'SASL')}"
    root = settings_file(
        tmp_path, "PLAIN", "plain.PlainLoginModule", f'username="{ROOT}" password="{password_of(ROOT)}"'
    )

    def tool(*arguments: str) -> str:
        return run_tool(
            "kafka-delegation-tokens", ["--bootstrap-server", server, "--command-config", root, *arguments]
        )

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(\S+)\s+(\S{80,})\s+User:root", made, re.MULTILINE)
    assert found is not None, made
    token_id, hmac = found.groups()
    assert token_id in tool("--describe", "--owner-principal", "User:root")
    assert "Completed renew operation" in tool("--renew", "--hmac", hmac, "--renew-time-period", "3600000")
    by_token = settings_file(
        tmp_path,
        "SCRAM-SHA-256",
        "scram.ScramLoginModule",
        f'username="{token_id}" password="{hmac}" tokenauth="true"',
    )
    topics = ["--bootstrap-server", server, "--command-config", by_token]
    run_tool("kafka-topics", [*topics, "--create", "--topic", "by-token"])
    assert "by-token" in run_tool("kafka-topics", [*topics, "--list"])
    assert "Completed expire operation" in tool("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    with pytest.raises(ToolError, match="Authentication failed"):
        run_tool("kafka-topics", [*topics, "--list"])

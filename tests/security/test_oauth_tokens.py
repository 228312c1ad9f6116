"""Valid and invalid tokens, the keys for them, and log lines about refusals, without a broker and a network."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from pybroker.broker.security.oauth import provider_keys as provider_module
from pybroker.broker.security.oauth.bearer_token import Bearer, TokenError, UnknownKeyError, check
from pybroker.broker.security.oauth.jwks import JwksError, KeySet
from pybroker.broker.security.oauth.oauth_conversation import OAuthConversation
from pybroker.broker.security.oauth.provider_keys import ProviderKeys
from pybroker.broker.security.sasl_mechanisms import SaslFailedError
from pybroker.config.broker_oauth import OAuthSettings
from pybroker.config.setting_values import InvalidValue
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, signed

NOW_S = 1_800_000_000
SETTINGS = OAuthSettings("file:///nowhere", None, 1000, 100, 1000, (AUDIENCE,), ISSUER, "scope", "sub", 30)

IDP = IdentityProvider()
KEYS = KeySet.parse(IDP.jwks())
SIGNER = IDP.keys["first"]
HEADER = {"alg": "RS256", "kid": "first"}


def claims(**changes: Any) -> dict[str, Any]:
    said = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 60, **changes}
    return {name: value for name, value in said.items() if value is not None}


def checked(token: str, keys: KeySet = KEYS, settings: OAuthSettings = SETTINGS) -> Bearer:
    return check(token, keys, settings, NOW_S * 1000)


def problem(token: str, keys: KeySet = KEYS) -> str:
    with pytest.raises(TokenError) as caught:
        checked(token, keys)
    told = str(caught.value)
    assert told.isprintable(), "one line"
    assert len(told) < 600
    return told


def test_a_good_token() -> None:
    assert checked(signed(SIGNER, HEADER, claims())) == Bearer("alice", 60_000)
    assert checked(signed(SIGNER, HEADER, claims(aud=["other", AUDIENCE], exp=NOW_S + 1.5))) == Bearer("alice", 1_500)
    assert checked(signed(SIGNER, {"alg": "PS384", "typ": "at+jwt", "own": 1}, claims(scope=["a"]))).user == "alice"
    # Clocks may differ, and no session lasts for ever.
    assert checked(signed(SIGNER, HEADER, claims(exp=NOW_S - 10))) == Bearer("alice", 20_000)
    assert checked(signed(SIGNER, HEADER, claims(exp=10**40))).left_ms == 365 * 86_400_000
    by_name = SETTINGS._replace(sub_claim="preferred_username", audiences=(), issuer=None)
    token = signed(SIGNER, HEADER, claims(preferred_username="bob", sub=None, aud=None, iss=None))
    assert checked(token, settings=by_name).user == "bob"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"exp": NOW_S - 31}, f"expired: exp='{NOW_S - 31}', now={NOW_S}"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "NumericDate"),
        ({"exp": True}, "NumericDate"),
        ({"iat": None}, "iat"),
        ({"iat": NOW_S + 31}, "issued in the future"),
        ({"nbf": NOW_S + 31}, "not yet valid"),
        ({"aud": "other"}, "aud='other'"),
        ({"aud": None}, "aud"),
        ({"aud": {"kafka": 1}}, "aud"),
        ({"iss": "https://elsewhere.example"}, "iss='https://elsewhere.example'"),
        ({"iss": [ISSUER]}, "iss"),
        ({"iss": None}, "iss"),
        ({"sub": None}, "claim sub does not name a user"),
        ({"sub": ""}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "a\nERROR forged"}, "not a valid user name"),
        ({"sub": "x" * 1001}, "not a valid user name"),
        ({"scope": 7}, "claim scope is neither"),
    ],
)
def test_claims_that_are_not_as_expected(changes: dict[str, Any], told: str) -> None:
    assert told in problem(signed(SIGNER, HEADER, claims(**changes)))


def test_hostile_tokens() -> None:
    """`none`, the public key as a secret, foreign keys: whatever the header says, only a signature by one of the
    provider's keys counts."""
    assert "alg='none' is not supported" in problem(signed(None, {"alg": "none", "kid": "first"}, claims()))
    assert "alg='nOnE'" in problem(signed(None, {"alg": "nOnE"}, claims()))
    unsigned = signed(None, {"alg": "HS256", "kid": "first"}, claims()).rstrip(".")
    digest = hmac.digest(SIGNER.as_bytes(private=False), unsigned.encode(), "sha256")
    by_public_key = f"{unsigned}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    assert "alg='HS256' is not supported" in problem(by_public_key)
    stranger = RSAKey.generate_key(2048)
    assert "bad signature" in problem(signed(stranger, HEADER, claims()))
    embedded = {**HEADER, "jwk": stranger.as_dict(private=False), "jku": "https://evil.example/jwks"}
    assert "bad signature" in problem(signed(stranger, embedded, claims()))
    with pytest.raises(UnknownKeyError, match="no key 'other'"):
        checked(signed(stranger, {"alg": "RS256", "kid": "other"}, claims()))
    elliptic = signed(ECKey.generate_key("P-256"), {"alg": "ES256", "kid": "first"}, claims())
    assert "not for alg=ES256" in problem(elliptic)
    assert "crit" in problem(signed(SIGNER, {**HEADER, "crit": ["must"], "must": 1}, claims()))
    assert "b64" in problem(signed(SIGNER, {**HEADER, "crit": ["b64"], "b64": False}, claims())).lower()
    good = signed(SIGNER, HEADER, claims())
    head, body, signature = good.split(".")
    forged = signed(None, HEADER, claims(sub="root")).split(".")[1]
    assert "bad signature" in problem(f"{head}.{forged}.{signature}")
    for token in ("", ".", "..", "a.b.c", f"{head}.{body}.", f"{head}..{signature}", f"{head}.{body}.{signature}!"):
        problem(token)
    assert "JWE" in problem("a.b.c.d.e")
    for header in ([], ["alg"], "alg", {"alg": None}, {"alg": ["RS256"]}, {"alg": "RS256", "kid": {}}, {"kid": "x"}):
        problem(signed(None, header, claims()))  # type: ignore[arg-type]  # wrong on purpose
    for payload in (b"", b"[]", b"\xff", b'{"exp":NaN}', b'{"exp":1e999}', b"[" * 40_000, b'{"a":' * 20_000):
        problem(signed(SIGNER, HEADER, payload))
    problem(f"{'A' * 30_000}.{body}.{signature}")
    problem(f"{head}.{'A' * 200_000}.{signature}")
    problem(f"{head}.{body}.{'A' * 60_000}")


@pytest.mark.filterwarnings("ignore:Key size")
def test_which_keys_of_a_set_are_used() -> None:
    ec, okp, small = ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519"), RSAKey.generate_key(1024)
    rows = [
        {**ec.as_dict(private=False), "kid": "ec"},
        {**okp.as_dict(private=False), "kid": "okp"},
        {**small.as_dict(private=False), "kid": "small"},
        {**SIGNER.as_dict(private=False), "kid": "encrypts", "use": "enc"},
        {**SIGNER.as_dict(private=False), "kid": "bound", "alg": "RS512"},
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
        {"kty": "EC", "kid": "bent", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "new"},
        7,
    ]
    keys = KeySet.parse(json.dumps({"keys": rows}).encode())
    assert [key.kid for key in keys.named(None)] == ["ec", "okp", "bound"]
    assert len(keys.left_out) == 6
    assert any("'small': it has 1024 bits, fewer than 2048" in told for told in keys.left_out)
    assert checked(signed(ec, {"alg": "ES256"}, claims()), keys).user == "alice"
    assert checked(signed(SIGNER, {"alg": "RS512", "kid": "bound"}, claims()), keys).user == "alice"
    assert "not for alg=RS256" in problem(signed(SIGNER, {"alg": "RS256", "kid": "bound"}, claims()), keys)
    twice = KeySet.parse(json.dumps({"keys": [rows[0], {**rows[0], "kid": "again"}]}).encode())
    assert "2 keys fit" in problem(signed(ec, {"alg": "ES256"}, claims()), twice)


@pytest.mark.parametrize(
    "document", [b"", b"{}", b'{"keys":7}', b'{"keys":[]}', b"[" * 10_000, b'{"keys":[' + b"{}," * 1_001 + b"{}]}"]
)
def test_what_is_no_key_set(document: bytes) -> None:
    with pytest.raises(JwksError):
        KeySet.parse(document)


def conversation(keys: KeySet = KEYS) -> OAuthConversation:
    held = ProviderKeys("L", SETTINGS, asyncio.new_event_loop())
    held.keys = keys
    held.stop()
    return OAuthConversation(held, lambda token: checked(token, held.keys))


def said(token: str, start: str = "n,,") -> bytes:
    return f"{start}\x01auth=Bearer {token}\x01\x01".encode()


def test_the_conversation() -> None:
    """RFC 7628: a refusal in JSON, its acknowledgement, then the failure."""
    good = signed(SIGNER, HEADER, claims())
    assert conversation().answer(said(good))[:2] == (b"", "alice")
    assert conversation().answer(said(good, "n,a=alice,")).user == "alice"
    assert conversation().answer(f"n,,\x01traceId=1\x01auth=bearer {good}\x01\x01".encode()).user == "alice"
    with pytest.raises(SaslFailedError, match="different from the token's user"):
        conversation().answer(said(good, "n,a=root,"))
    refused = conversation()
    step = refused.answer(said(signed(SIGNER, HEADER, claims(exp=1))))
    assert json.loads(step.token) == {"status": "invalid_token"}
    assert step.user is None
    assert step.refused is not None
    assert step.refused.startswith("expired")
    with pytest.raises(SaslFailedError, match="invalid_token"):
        refused.answer(b"\x01")
    unknown = conversation(KeySet()).answer(said(good))
    assert unknown.refused == "the provider's keys are not loaded yet"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01x=1\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,a=,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer a\x01\x01more",
        b"\xff\xfe",
        b"n,,\x01" + b"a=b\x01" * 10_000,
        b"n,,\x01auth=Bearer " + b" " * 60_000,
    ],
)
def test_what_is_no_message(message: bytes) -> None:
    with pytest.raises(SaslFailedError):
        conversation().answer(message)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (what others do in threads)
            await asyncio.sleep(0.01)


def test_a_file_is_read_at_the_start_and_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "LOOK_S", 0.01)
    caplog.set_level("INFO", logger=provider_module.__name__)
    file = tmp_path / "jwks.json"

    async def run() -> None:
        keys = ProviderKeys("L", SETTINGS._replace(url=file.as_uri()), asyncio.get_running_loop())
        with pytest.raises(InvalidValue, match=r"listener L: keys of file://.*cannot read the file: No such file"):
            keys.start()
        file.write_bytes(IDP.jwks())
        keys.start()
        assert len(keys.keys) == 1
        other = IdentityProvider()
        other.keys["second"] = ECKey.generate_key("P-256", {"kid": "second"})
        fresh = tmp_path / "fresh"
        fresh.write_bytes(other.jwks())
        fresh.rename(file)
        await until(lambda: len(keys.keys) == 2)
        file.write_bytes(b"nonsense")
        await until(lambda: "the earlier keys stay in use" in caplog.text)
        assert len(keys.keys) == 2
        keys.stop()

    asyncio.run(run())


def test_a_provider_by_url(caplog: pytest.LogCaptureFixture) -> None:
    """The provider is down, comes up, has unknown keys, and fails. Each problem is logged once, and earlier keys stay
    valid."""
    caplog.set_level("INFO", logger=provider_module.__name__)
    idp = IdentityProvider()

    async def run() -> None:
        with idp.serving():
            idp.status = 503
            settings = SETTINGS._replace(url=f"{idp.url}/jwks", retry_ms=1, retry_max_ms=5, refresh_ms=3_600_000)
            keys = ProviderKeys("L", settings, asyncio.get_running_loop())
            keys.start()
            await until(lambda: len(idp.asked) > 5)
            assert len(keys.keys) == 0
            assert caplog.text.count("the response has status 503") == 1
            idp.status = 200
            await until(lambda: len(keys.keys) == 1)
            asked = len(idp.asked)
            keys._began = None  # as if the last fetch were long ago
            newer = keys.newer()
            assert newer is not None
            assert keys.newer() is newer, "one at a time"
            await newer
            assert len(idp.asked) == asked + 1
            assert keys.newer() is None, "strangers cannot have the provider asked again and again"
            keys.stop()

    asyncio.run(run())

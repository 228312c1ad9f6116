"""SCRAM's two sides against the RFC and against each other."""

from __future__ import annotations

import pytest

from pybroker.protocol import scram
from pybroker.protocol.scram import ScramCredential, ScramError, ScramMechanism, ServerConversation, client_conversation

USER, PASSWORD = "u,s=er", "pencil"


def credential(mechanism: ScramMechanism, password: str = PASSWORD) -> ScramCredential:
    return ScramCredential.of_password(mechanism, password, scram.STORED_ITERATIONS_MIN)


def converse(mechanism: ScramMechanism, server: ServerConversation) -> str | None:
    """Exchange messages until both sides are done; return the user that the server has authenticated."""
    client = client_conversation(mechanism, USER, PASSWORD)
    challenge, nobody = server.answer(next(client))
    assert nobody is None
    signature, user = server.answer(client.send(challenge))
    with pytest.raises(StopIteration):
        client.send(signature)
    return user


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_two_sides_agree(mechanism: ScramMechanism) -> None:
    stored = ScramCredential.parse(credential(mechanism).render())
    asked: list[str] = []

    def find(user: str, by_token: bool) -> tuple[ScramCredential, bool]:
        asked.append(user)
        return stored, True

    assert converse(mechanism, ServerConversation(mechanism, find)) == USER
    assert set(asked) == {USER}
    with pytest.raises(ScramError, match=r"'u,s=er' or its password is wrong"):
        converse(mechanism, ServerConversation(mechanism, lambda *_: (stored, False)))
    other = credential(mechanism, "another")
    with pytest.raises(ScramError, match=r"'u,s=er' or its password is wrong"):
        converse(mechanism, ServerConversation(mechanism, lambda *_: (other, True)))


def test_the_exchange_that_rfc_7677_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: "rOprNGfwEbeRWgbNEkqO")
    client = client_conversation(ScramMechanism.SCRAM_SHA_256, "user", PASSWORD)
    assert next(client) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert client.send(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") == (
        b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        client.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "text", ["", "salt=c2FsdA==", "salt=c2FsdA==,stored_key=!,server_key=,iterations=4096", "iterations=many"]
)
def test_a_damaged_credential_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a valid SCRAM credential$"):
        ScramCredential.parse(text)

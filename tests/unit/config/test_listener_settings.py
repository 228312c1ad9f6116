"""`listener.name.…`: users of PLAIN in JAAS form, mechanisms, session lengths. Error messages contain no secrets."""

from __future__ import annotations

import pytest

from pybroker.config import ConfigError, load_config
from pybroker.config.listener_settings import plain_users
from pybroker.config.setting_values import InvalidValue

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = ("listeners=CLIENTS://:0", "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT")
JAAS = "listener.name.clients.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (f'{MODULE} required user_alice="secret";', {"alice": "secret"}),
        (f"{MODULE} required username=\"admin\" password='x y' user_a=1 user_b='2';", {"a": "1", "b": "2"}),
        (f'{MODULE}   required\n  user_a="se;cr\\"et"\n  user_b.c-d="ü" ;', {"a": 'se;cr"et', "b.c-d": "ü"}),
        (f"{MODULE} required;", {}),
        (f'{MODULE} REQUIRED user_a="x";', {"a": "x"}),
        (f'{MODULE} Required user_müller="x" user_$ConnectionString="y";', {"müller": "x", "$ConnectionString": "y"}),
        (f'{MODULE} required "user_al@ex.org"="x";', {"al@ex.org": "x"}),
        (f'{MODULE} required /* both */ user_a="x" // and\n user_b="y /* z */";', {"a": "x", "b": "y /* z */"}),
        (f'{MODULE} required user_a = "tab\\tq\\"\\101\\\\" ;', {"a": 'tab\tq"A\\'}),
        (f'{MODULE} required user_a="x" user_a="y";', {"a": "y"}),
    ],
)
def test_users_of_plain(text: str, users: dict[str, str]) -> None:
    assert plain_users(text) == users


@pytest.mark.parametrize(
    "text",
    [
        "",
        "com.example.Other required user_a=hidden;",
        f"{MODULE} user_a=hidden;",
        f"{MODULE} required user_a=hidden",
        f'{MODULE} required user_a="hidden;',
        f"{MODULE} required user_a=hidden; user_b=hidden;",
        f'{MODULE} required user_a="" user_b=hidden;',
        f'{MODULE} required user_a="x"; {MODULE} required user_b="hidden";',
        f'KafkaServer {{ {MODULE} required user_a="hidden"; }};',
        f'"{MODULE} required user_a=hidden;"',
        f"{MODULE} required user_a= ;",
        f'{MODULE} required user_a="hidden" ="x";',
    ],
)
def test_mistakes_never_show_the_text(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        plain_users(text)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ConfigError) as told:
        load_config(None, [*SASL, f"{JAAS}={text}"])
    assert "hidden" not in str(told.value).replace("(hidden)", "")


def test_what_a_listener_does() -> None:
    config, warnings = load_config(
        None,
        [
            *SASL,
            f'{JAAS}={MODULE} required user_a="pw";',
            "connections.max.reauth.ms=1m",
            "listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
            "listener.name.clients.plain.connections.max.reauth.ms=1h",
            # Kafka's brokers log in to each other with this entry.
            'listener.name.clients.scram-sha-512.sasl.jaas.config=x.Scram required username="b" password="c";',
        ],
    )
    security = config.listener_security("CLIENTS")
    assert security.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert security.plain_users == {"a": "pw"}
    assert security.reauth_ms == {"SCRAM-SHA-512": 60_000, "PLAIN": 3_600_000}
    assert "pw" not in repr(security)
    assert [warning for warning in warnings if "may do everything" in warning]
    copy = config.with_dynamic(cluster={}, broker={})
    assert copy.listener_security("CLIENTS") == security
    _, warnings = load_config(None, [*SASL, "sasl.enabled.mechanisms=PLAIN", "super.users=User:a"])
    assert any("has no user" in warning for warning in warnings)
    assert any("super.users has no effect" in warning for warning in warnings)


@pytest.mark.parametrize(
    "text",
    [
        "sasl.enabled.mechanisms=GSSAPI",
        "listener.name.clients.sasl.enabled.mechanisms=PLAIN,OAUTHBEARER",
        "super.users=alice",
        "super.users=User:a,User:b;nobody",
        "authorizer.class.name=com.example.Authorizer",
        "listener.name.clients.connections.max.reauth.ms=-1",
    ],
)
def test_what_cannot_be_obeyed_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError):
        load_config(None, [*SASL, text])

"""`config.providers`: references to the environment, to files and to directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker.config import ConfigError, load_config

KAFKA = "org.apache.kafka.common.config.provider"


def rack(*given: str) -> str:
    """Return the effective value of `broker.rack`."""
    return str(load_config(None, given).config["broker.rack"])


def provider(name: str, kind: str, **parameters: str) -> list[str]:
    named = [f"config.providers.{name}.param.{each.replace('_', '.')}={text}" for each, text in parameters.items()]
    return [f"config.providers={name}", f"config.providers.{name}.class={KAFKA}.{kind}ConfigProvider", *named]


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "b")
    given = provider("env", "EnvVar", allowlist_pattern="ZONE|OTHER")
    assert rack(*given, "broker.rack=eu-${env:ZONE}-1${not:there}${ZONE}") == "eu-b-1${not:there}${ZONE}"
    for text, told in (
        ("${env:OTHER}", "the environment variable OTHER is not set"),
        ("${env:HOME}", "allowlist.pattern=ZONE|OTHER does not allow HOME"),
        ("${env:x:ZONE}", "environment variables have no path"),
    ):
        with pytest.raises(ConfigError, match=r"^broker.rack=.*" + told.replace("|", r"\|")):
            rack(*given, f"broker.rack={text}")


def test_the_settings_of_providers_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "b")
    assert load_config(None, [*provider("env", "EnvVar"), "broker.rack=${env:ZONE}"]).warnings == []


def test_files_and_directories(tmp_path: Path) -> None:
    secret = tmp_path / "secrets.properties"
    secret.write_text("zone=eu\\u0031\nother=x\n")
    (tmp_path / "zone").write_text("eu2\n")
    assert rack(*provider("file", "File"), f"broker.rack=${{file:{secret}:zone}}") == "eu1"
    for encoded in (b"\xef\xbb\xbfzone=eu1\r\n", b"# Pr\xfcfung\nzone=eu1\n"):
        secret.write_bytes(encoded)
        assert rack(*provider("file", "File"), f"broker.rack=${{file:{secret}:zone}}") == "eu1"
    secret.write_text("zone=eu\\u0031\nother=x\n")
    directory = provider("d", "Directory", allowed_paths=str(tmp_path))
    assert rack(*directory, f"broker.rack=${{d:{tmp_path}:zone}}") == "eu2"
    os.mkfifo(tmp_path / "fifo")
    for kind, reference, told in (
        ("File", f"{secret}:absent", "has no absent"),
        ("File", f"{tmp_path}/none:zone", "cannot be read: No such file"),
        ("File", f"{tmp_path}/fifo:zone", "is not a regular file"),
        ("File", "zone", "expected"),
        ("Directory", f"{tmp_path}:../zone", "must be the name of a file"),
        ("Directory", f"{tmp_path}/../..:zone", "does not allow"),
    ):
        with pytest.raises(ConfigError, match=told):
            rack(*provider("p", kind, allowed_paths=str(tmp_path)), f"broker.rack=${{p:{reference}}}")


def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAAS", "hunter2")
    name = "listener.name.plaintext.plain.sasl.jaas.config"
    with pytest.raises(ConfigError, match="hidden") as caught:
        load_config(None, [*provider("env", "EnvVar"), f"{name}=${{env:JAAS}}"])
    assert "hunter2" not in str(caught.value)

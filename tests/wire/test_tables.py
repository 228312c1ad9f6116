"""Python's constants of the protocol equal those of the native core."""

from __future__ import annotations

import keyword
import re
import runpy
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pybroker import native
from pybroker.protocol import interbroker, messages
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

ROOT = Path(__file__).parents[2]


def test_error_codes_are_the_native_ones() -> None:
    table = [(row.code, row.name, row.retriable) for row in native.error_code_table()]
    assert [(code.value, code.name, code.retriable) for code in sorted(ErrorCode)] == table


def test_api_keys_are_the_native_ones() -> None:
    def python_name(name: str) -> str:
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()

    assert [(key.value, key.name) for key in ApiKey] == [(row.key, python_name(row.name)) for row in native.api_table()]


@pytest.mark.parametrize("module", ["messages", "interbroker"])
def test_the_stubs_are_what_the_schemas_say(module: str) -> None:
    writer = runpy.run_path(str(ROOT / "native" / "protocol" / "schema" / "write_stubs.py"))
    written = (ROOT / "pybroker" / "protocol" / f"{module}.pyi").read_text()
    assert writer["stub"](module) == written, "run native/protocol/schema/write_stubs.py"


@pytest.mark.parametrize("between_brokers", [False, True])
def test_every_class_has_the_schemas_fields_and_defaults(between_brokers: bool) -> None:
    for name in native.message_names(interbroker=between_brokers):
        schema = native.message_schema(name, interbroker=between_brokers)
        assert schema is not None
        for struct in schema.structs:
            made = native.message_class(struct.name, interbroker=between_brokers)
            assert made is not None
            assert issubclass(made, msgspec.Struct)
            assert made.__name__ == struct.name
            assert made.__struct_fields__ == tuple(field.name for field in struct.fields)
            assert not any(map(keyword.iskeyword, made.__struct_fields__))
            made()


def test_modules_show_their_own_classes_and_nothing_else() -> None:
    assert messages.FetchRequest.__module__ == "pybroker.protocol.messages"
    assert interbroker.FetchRequest.__module__ == "pybroker.protocol.interbroker"
    assert messages.LeaderAndIsrRequest is interbroker.LeaderAndIsrRequest
    assert messages.CreateTopicsRequest is messages.CreateTopicsRequest
    assert "CreateTopicsRequest" in dir(messages)
    for name in ("NoSuchRequest", "CreateTopicsRequest_NoSuchStruct"):
        with pytest.raises(AttributeError):
            getattr(messages, name)


def test_importing_the_messages_builds_no_class() -> None:
    program = (
        "import sys, pybroker.protocol.messages as m; assert 'msgspec' not in sys.modules;"
        "m.HeartbeatRequest(); assert 'msgspec' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)

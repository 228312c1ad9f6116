"""Random messages of any version, made from the schemas."""

from __future__ import annotations

import random
from typing import Any

from pybroker import native
from pybroker.native import Uuid

INTEGERS = {"int8": (-(2**7), 2**7), "int16": (-(2**15), 2**15), "uint16": (0, 2**16), "int32": (-(2**31), 2**31),
            "int64": (-(2**63), 2**63)}  # fmt: skip
LETTERS = "abcXYZ-_.0189 éß漢字😀"


class RandomMessages:
    """Makes messages of one registry; the same ones for the same `seed`."""

    def __init__(self, seed: int, *, interbroker: bool = False) -> None:
        self.random = random.Random(seed)
        self.interbroker = interbroker

    def make(self, message: str, version: int) -> Any:
        """A `message` that `version` carries whole: fields that it does not have keep their defaults."""
        schema = native.message_schema(message, interbroker=self.interbroker)
        assert schema is not None, message
        return self._struct({one.name: one.fields for one in schema.structs}, message, version)

    def _struct(self, classes: dict[str, Any], name: str, version: int) -> Any:
        chosen: dict[str, Any] = {}
        for field in classes[name]:
            if not _within(field.versions, version) or self.random.random() < 0.1:
                continue  # the default, which may be null only where null is allowed
            if _within(field.nullable, version) and self.random.random() < 0.2:
                chosen[field.name] = None
            else:
                chosen[field.name] = self._value(classes, field.type_name, version)
        made = native.message_class(name, interbroker=self.interbroker)
        assert made is not None, name
        message = made(**chosen)
        for field in classes[name]:
            given = _within(field.versions, version) and not _within(field.nullable, version)
            if given and getattr(message, field.name) is None:
                setattr(message, field.name, self._value(classes, field.type_name, version))
        return message

    def _value(self, classes: dict[str, Any], kind: str, version: int) -> Any:
        choose = self.random
        if kind.startswith("[]"):
            return [self._value(classes, kind[2:], version) for _ in range(choose.choice((0, 1, 1, 2, 3)))]
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            return choose.choice((low, high - 1, max(-1, low), 0, choose.randrange(low, high), choose.randrange(100)))
        match kind:
            case "bool":
                return choose.random() < 0.5
            case "float64":
                return choose.uniform(-1e9, 1e9)
            case "uuid":
                return Uuid.from_bytes(choose.randbytes(16))
            case "string":
                return "".join(choose.choices(LETTERS, k=choose.choice((0, 1, 8, 40, 130))))
            case "bytes" | "records":
                return choose.randbytes(choose.choice((0, 1, 13, 127, 128, 300)))
        return self._struct(classes, kind, version)


def _within(versions: tuple[int, int], version: int) -> bool:
    return versions[0] <= version <= versions[1]


def versions(message: str, *, interbroker: bool = False) -> range:
    """Return the versions of a message."""
    schema = native.message_schema(message, interbroker=interbroker)
    assert schema is not None, message
    return range(schema.min_version, schema.max_version + 1)

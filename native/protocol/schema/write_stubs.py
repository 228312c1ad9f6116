"""Writes pybroker/protocol/messages.pyi and interbroker.pyi from the schemas that the built extension module contains.

    python native/protocol/schema/write_stubs.py

tests/wire compares the files with what this would write.
"""

from __future__ import annotations

from pathlib import Path

from pybroker import native

PROTOCOL = Path(__file__).parents[3] / "pybroker" / "protocol"
BETWEEN_BROKERS = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
PYTHON_TYPES = {
    "bool": "bool", "float64": "float", "string": "str", "uuid": "Uuid", "bytes": "bytes", "records": "bytes",
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), "int"),
}  # fmt: skip
HEADS = {
    "messages": (
        '"""The classes of pybroker.protocol.messages. Written by native/protocol/schema/write_stubs.py."""\n\n'
        "import msgspec\n\nfrom pybroker.native import Uuid\n"
    ),
    "interbroker": (
        '"""The classes of pybroker.protocol.interbroker. Written by native/protocol/schema/write_stubs.py."""\n\n'
        "import msgspec\n\nfrom pybroker.native import Uuid\n"
    ),
}


def python_type(kind: str) -> str:
    if kind.startswith("[]"):
        return f"list[{python_type(kind[2:])}]"
    return PYTHON_TYPES.get(kind, kind)


def classes(message: str, *, interbroker: bool) -> list[str]:
    schema = native.message_schema(message, interbroker=interbroker)
    if schema is None:
        raise LookupError(message)
    place = f"key {schema.api_key}, " if schema.api_key is not None else ""
    versions = f"versions {schema.min_version}-{schema.max_version}"
    texts = []
    for number, struct in enumerate(schema.structs):
        lines = [f"class {struct.name}(msgspec.Struct):"]
        if number == 0:
            lines.append(f'    """{schema.kind.capitalize()}, {place}{versions}."""\n')
        for field in struct.fields:
            null_first, null_last = field.nullable
            optional = " | None" if null_first <= null_last or field.default == "None" else ""
            lines.append(f"    {field.name}: {python_type(field.type_name)}{optional} = {field.default}")
        if not struct.fields:
            lines.append("    ...")
        texts.append("\n".join(lines) + "\n")
    return texts


def stub(module: str) -> str:
    """The text of one stub file."""
    interbroker = module == "interbroker"
    parts = [HEADS[module]]
    names = native.message_names(interbroker=interbroker)
    if not interbroker:
        shared = [name for name in native.message_names(interbroker=True) if name.startswith(BETWEEN_BROKERS)]
        schemas = [native.message_schema(message, interbroker=True) for message in shared]
        structs = [struct.name for schema in schemas if schema is not None for struct in schema.structs]
        origin = "from pybroker.protocol.interbroker import"
        parts[0] += "".join(f"{origin} (\n    {name} as {name},\n)\n" for name in sorted(structs))
        names = [name for name in names if not name.startswith(BETWEEN_BROKERS)]
    for name in names:
        parts += classes(name, interbroker=interbroker)
    return "\n".join(parts)


if __name__ == "__main__":
    for each in HEADS:
        (PROTOCOL / f"{each}.pyi").write_text(stub(each))

"""Rows in Avro's binary encoding (without schema or header). fastavro encodes them in Spark's Python workers: Spark's
own `to_avro` needs a jar."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.output import say
from pybroker.cli.spark.spark_session import column_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
SIMPLE: dict[str, Any] = {
    "string": "string",
    "binary": "bytes",
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def schema_of(struct: StructType, name: str = "Row") -> dict[str, Any]:
    """Return the Avro schema of a row. Like in Spark's own conversion, nullable fields are unions with null.

    The name of a nested record is its path, such as `Row.a.b`, because the name must be unique. Raises
    click.ClickException for types that Avro does not have and for field names that Avro does not allow.
    """
    fields = []
    for field in struct.fields:
        if not NAME.fullmatch(field.name):
            raise click.ClickException(
                f"--value avro: {field.name!r} is not a valid Avro field name; use letters A to Z, digits and _ (no "
                "digit first): rename the column, or use --value json"
            )
        kind = _type_of(field.dataType, f"{name}.{field.name}")
        fields.append({"name": field.name, "type": ["null", kind] if field.nullable else kind})
    return {"type": "record", "name": name, "fields": fields}


def _type_of(kind: DataType, name: str) -> Any:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return schema_of(kind, name)
    if isinstance(kind, ArrayType):
        inner = _type_of(kind.elementType, name)
        return {"type": "array", "items": ["null", inner] if kind.containsNull else inner}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        inner = _type_of(kind.valueType, name)
        return {"type": "map", "values": ["null", inner] if kind.valueContainsNull else inner}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    found = SIMPLE.get(kind.typeName())
    if found is None:
        raise click.ClickException(f"--value avro: no Avro type for {kind.simpleString()}; use --value json")
    return found


def avro_column(frame: DataFrame) -> Column:
    """Return all columns of a frame as one value; print the schema on stderr, for readers of the topic."""
    from pyspark.sql import functions
    from pyspark.sql.types import BinaryType

    schema = schema_of(frame.schema)
    say(f"Avro schema of the values: {json.dumps(schema)}", err=True)

    # Do not annotate the function. Spark derives the kind of function from annotations, and warns about all types
    # except its own.
    encode = functions.udf(lambda row: encoded(schema, row.asDict(recursive=True)), BinaryType())
    return encode(functions.struct(*(column_of(each) for each in frame.columns)))


def encoded(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """Return one row in Avro's binary encoding."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(json.dumps(schema)), row)
    return out.getvalue()


_PARSED: dict[str, Any] = {}


def _parsed(text: str) -> Any:
    import fastavro

    if text not in _PARSED:
        _PARSED[text] = fastavro.parse_schema(json.loads(text))
    return _PARSED[text]

"""Texts of settings: accepted, refused, and converted back to text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config import ConfigKey, ConfigType, InvalidValue, render_value
from pybroker.config import setting_values as v


@pytest.mark.parametrize(
    ("name", "kind", "text", "value"),
    [
        ("num.partitions", ConfigType.INT, " 3 ", 3),
        ("x", ConfigType.INT, "-2147483648", -2147483648),
        ("x", ConfigType.LONG, "9223372036854775807", 9223372036854775807),
        ("x", ConfigType.SHORT, "+7", 7),
        ("delete.topic.delay.ms", ConfigType.LONG, "4h", 14_400_000),
        ("retention.ms", ConfigType.LONG, "7 d", 604_800_000),
        ("retention.ms", ConfigType.LONG, "90ms", 90),
        ("retention.ms", ConfigType.LONG, "2m", 120_000),
        ("retention.ms", ConfigType.LONG, "-1", -1),
        ("segment.bytes", ConfigType.INT, "1GiB", 1 << 30),
        ("segment.bytes", ConfigType.INT, "16 KiB", 16384),
        ("x", ConfigType.BOOLEAN, "TRUE", True),
        ("x", ConfigType.BOOLEAN, "false", False),
        ("x", ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        ("x", ConfigType.LIST, "a, b ,c", ("a", "b", "c")),
        ("x", ConfigType.LIST, "", ()),
        ("x", ConfigType.STRING, " text ", "text"),
    ],
)
def test_understood(name: str, kind: ConfigType, text: str, value: object) -> None:
    assert v.parse_value(name, kind, text) == value


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("x", ConfigType.INT, ""),
        ("x", ConfigType.INT, "1.5"),
        ("x", ConfigType.INT, "0x10"),
        ("x", ConfigType.INT, "1_000"),
        ("x", ConfigType.INT, "٣"),
        ("x", ConfigType.INT, "2147483648"),
        ("x", ConfigType.SHORT, "32768"),
        ("x", ConfigType.LONG, "9223372036854775808"),
        ("x", ConfigType.LONG, "9" * 5000),
        ("num.partitions", ConfigType.INT, "4h"),
        ("retention.ms", ConfigType.LONG, "h"),
        ("retention.ms", ConfigType.LONG, "4 hours"),
        ("retention.ms", ConfigType.LONG, "1.5h"),
        ("segment.bytes", ConfigType.INT, "1GB"),
        ("segment.bytes", ConfigType.INT, "4GiB"),
        ("x", ConfigType.BOOLEAN, "yes"),
        ("x", ConfigType.DOUBLE, "nan"),
        ("x", ConfigType.DOUBLE, "inf"),
        ("x", ConfigType.DOUBLE, "half"),
    ],
)
def test_refused(name: str, kind: ConfigType, text: str) -> None:
    with pytest.raises(InvalidValue):
        v.parse_value(name, kind, text)


@given(st.sampled_from([ConfigType.INT, ConfigType.LONG, ConfigType.SHORT]), st.text(max_size=30))
def test_any_text_is_a_number_or_refused(kind: ConfigType, text: str) -> None:
    try:
        value = v.parse_value("some.ms", kind, text)
    except InvalidValue:
        return
    assert isinstance(value, int)
    assert v.parse_value("some.ms", kind, render_value(value) or "") == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (("a", "b"), "a,b"),
        (None, None),
        (-1, "-1"),
    ],
)
def test_rendered_as_kafka_shows_it(value: v.Value, text: str | None) -> None:
    assert render_value(value) == text


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (v.at_least(1), [1, 2, None], [0]),
        (v.between(0, 1), [0, 0.5, 1], [-0.1, 1.1]),
        (v.one_of("a", "b"), ["a", None], ["c", ""]),
        (v.items_of("a", "b"), [(), ("a",), ("b", "a")], [("c",), ("a", "a"), ("",)]),
        (v.items_of("a", empty=False), [("a",)], [()]),
        (v.not_empty, ["x", ("x",)], ["", (), None, ("x", "")]),
        (v.gzip_level, [-1, 1, 9], [0, 10, -2]),
        (v.throttled_replicas, [(), ("*",), ("0:1", "1:2")], [("0",), ("a:1",), ("0:",), ("*", "0:1")]),
    ],
)
def test_validators(check: v.Validator, good: list[v.Value], bad: list[v.Value]) -> None:
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(InvalidValue):
            check(value)


def test_passwords_are_sensitive() -> None:
    assert ConfigKey("secret", ConfigType.PASSWORD, None, "").sensitive
    assert not ConfigKey("name", ConfigType.STRING, None, "").sensitive

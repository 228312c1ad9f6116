"""`config.providers` (KIP-297, KIP-421): values of a settings file that are stored elsewhere, as
`${provider:path:key}` or `${provider:key}`.

Behavior
* Kafka's own providers are built in: environment variables, properties files, and directories with one file per value.
* `param.allowed.paths` and `param.allowlist.pattern` limit what they read.
* A reference to a provider that `config.providers` does not name stays unchanged.

Differs from Kafka
* A reference to a missing value is an error; Kafka keeps its text, which then serves as a password.
* Only regular files of at most 1 MiB are read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from pybroker.config.properties import PropertiesError, decode_properties, read_properties
from pybroker.config.setting_values import InvalidValue
from pybroker.files import read_bounded

NAME = "config.providers"
VALUE_BYTES_MAX = 1 << 20

_KINDS = tuple(
    f"org.apache.kafka.common.config.provider.{kind}ConfigProvider" for kind in ("EnvVar", "File", "Directory")
)
_ENVIRONMENT, _FILE, _DIRECTORY = _KINDS
_ALIASES = {"io.strimzi.kafka.EnvVarConfigProvider": _ENVIRONMENT}
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


class Providers:
    """The providers that a settings file declares."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Raise InvalidValue if a provider has no class, or a class that is not built in."""
        self._kinds: dict[str, str] = {}
        self._settings = settings
        for provider in filter(None, (part.strip() for part in settings.get(NAME, "").split(","))):
            class_name = settings.get(f"{NAME}.{provider}.class", "").strip()
            kind = _ALIASES.get(class_name, class_name)
            if kind not in _KINDS:
                what = f"{NAME}.{provider}.class={class_name}" if class_name else f"{NAME}.{provider}.class is missing"
                raise InvalidValue(f"{what}; this broker supports {', '.join(_KINDS)}")
            self._kinds[provider] = kind

    def resolve(self, text: str) -> str:
        """Return the text with each reference replaced by its value. Raises InvalidValue if a value is missing, or if
        the provider may not read it.
        """
        return _REFERENCE.sub(self._value, text) if self._kinds else text

    def _value(self, reference: re.Match[str]) -> str:
        provider, path, key = (part.strip() for part in (reference[1], reference[2] or "", reference[3]))
        kind = self._kinds.get(provider)
        if kind is None:
            return reference[0]
        if kind == _ENVIRONMENT:
            return self._variable(provider, path, key)
        if not path:
            raise InvalidValue(f"{reference[0]}: expected ${{{provider}:path:key}}")
        place = Path(os.path.normpath(path))
        self._check_allowed(provider, place)
        if kind == _DIRECTORY:
            if "/" in key or key in ("", ".", ".."):
                raise InvalidValue(f"{reference[0]}: the key must be the name of a file in {place}")
            return _text(place / key)
        try:
            found = {each.key: each.value for each in read_properties(decode_properties(_content(place)))}
        except PropertiesError as problem:
            raise InvalidValue(f"{place} line {problem.line}: {problem}") from None
        if key not in found:
            raise InvalidValue(f"{reference[0]}: {place} has no {key}")
        return found[key]

    def _variable(self, provider: str, path: str, key: str) -> str:
        if path:
            raise InvalidValue(f"${{{provider}:{path}:{key}}}: environment variables have no path")
        pattern = self._settings.get(f"{NAME}.{provider}.param.allowlist.pattern", "").strip()
        try:
            if pattern and not re.fullmatch(pattern, key):
                raise InvalidValue(f"{NAME}.{provider}.param.allowlist.pattern={pattern} does not allow {key}")
        except re.error as problem:
            raise InvalidValue(f"{NAME}.{provider}.param.allowlist.pattern={pattern}: {problem}") from None
        if key not in os.environ:
            raise InvalidValue(f"the environment variable {key} is not set")
        return os.environ[key]

    def _check_allowed(self, provider: str, place: Path) -> None:
        setting = f"{NAME}.{provider}.param.allowed.paths"
        allowed = [part.strip() for part in self._settings.get(setting, "").split(",") if part.strip()]
        if allowed and not any(place.is_relative_to(os.path.normpath(each)) for each in allowed):
            raise InvalidValue(f"{setting}={','.join(allowed)} does not allow {place}")


def _text(place: Path) -> str:
    try:
        return _content(place).decode()
    except UnicodeDecodeError:
        raise InvalidValue(f"{place} is not a text in UTF-8") from None


def _content(place: Path) -> bytes:
    """Return the bytes of a regular file. Refuse other kinds of files, because a FIFO or a device could block the start
    forever."""
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise InvalidValue(f"{place} is not a regular file")
        content = read_bounded(place, VALUE_BYTES_MAX)
    except OSError as problem:
        raise InvalidValue(f"{place} cannot be read: {problem.strerror}") from None
    if len(content) > VALUE_BYTES_MAX:
        raise InvalidValue(f"{place} is longer than {VALUE_BYTES_MAX} bytes")
    return content

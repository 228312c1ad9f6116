"""Loads server.properties and `--set key=value` into a BrokerConfig: checks every value and reports all problems
together, one line each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pybroker.config import advice, foreign_settings, single_node
from pybroker.config.broker_cluster import EMBEDDED, METADATA_STORE, QUORUM
from pybroker.config.broker_config import BrokerConfig
from pybroker.config.broker_defs import BROKER_SETTINGS
from pybroker.config.broker_without_effect import WITHOUT_EFFECT
from pybroker.config.consistency import BETWEEN, CONTROLLERS, inconsistencies
from pybroker.config.definition import nearest_name
from pybroker.config.listener_addresses import SECURITY_BETWEEN
from pybroker.config.listener_settings import check_listener_setting, listener_setting, nearest_listener_setting
from pybroker.config.properties import PropertiesError, decode_properties, read_properties
from pybroker.config.providers import NAME as PROVIDERS
from pybroker.config.providers import Providers
from pybroker.config.setting_values import ConfigError, InvalidValue, render_value
from pybroker.config.store_files import unusable_stores

PROPERTIES_BYTES_MAX = 1 << 20
"""Size limit of a settings file in bytes. A larger file is probably not a settings file but was named by mistake (a
log, a device)."""


class Setting(NamedTuple):
    """A setting, and its origin for error messages: `server.properties line 7` or `--set`."""

    text: str
    where: str


class LoadedConfig(NamedTuple):
    """A checked configuration, and warnings for the log."""

    config: BrokerConfig
    warnings: list[str]


def load_config(
    file: str | os.PathLike[str] | None = None,
    assignments: Iterable[str] = (),
    settings: Mapping[str, object] | None = None,
    *,
    stores: bool = False,
) -> LoadedConfig:
    """Load a file in Java's properties format. `settings` override the file, and `assignments` (`key=value`) override
    both. With `stores`, also read keystores and truststores. Raises ConfigError with all problems.
    """
    texts: dict[str, Setting] = {}
    problems: list[str] = []
    if file is not None:
        texts.update(_read_properties(os.fspath(file), problems))
    for name, value in (settings or {}).items():
        texts[name] = Setting(_text_of(value), "settings")
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            problems.append(f"--set {assignment}: expected key=value")
        else:
            texts[name.strip()] = Setting(text.strip(), "--set")
    return _Check(texts, problems).loaded(stores=stores)


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _read_properties(path: str, problems: list[str]) -> dict[str, Setting]:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(PROPERTIES_BYTES_MAX + 1)
    except OSError as problem:
        raise ConfigError(f"{path}: cannot read the settings file: {problem.strerror}") from None
    if len(raw) > PROPERTIES_BYTES_MAX:
        raise ConfigError(f"{path}: longer than {PROPERTIES_BYTES_MAX} bytes; not a settings file")
    if b"\0" in raw:
        raise ConfigError(f"{path}: not a text file (it contains a zero byte); use UTF-8")
    malformed: list[PropertiesError] = []
    found = read_properties(decode_properties(raw), malformed)
    read = {setting.key: Setting(setting.value.strip(), f"{path} line {setting.line}") for setting in found}
    problems += [f"{path} line {problem.line}: {problem}" for problem in malformed]
    return read


class _Check:
    """Checks the settings of one broker and builds its configuration."""

    def __init__(self, texts: Mapping[str, Setting], problems: list[str]) -> None:
        self._texts = dict(texts)
        self._problems = problems
        self._failed: set[str] = set()
        self._static: dict[str, str] = {}
        self._listener_settings: dict[str, str] = {}
        self._unused = advice.UnusedSettings()

    def loaded(self, *, stores: bool) -> LoadedConfig:
        """Return the configuration. Raises ConfigError with all problems."""
        self._resolve_references()
        for name, setting in self._texts.items():
            self._take(name, setting)
        self._drop_controller_listeners()
        static = self._static
        cut = single_node.fit(static) if static.get(METADATA_STORE, EMBEDDED) == EMBEDDED else None
        config = BrokerConfig(static, self._listener_settings)
        texts = {name: setting.text for name, setting in self._texts.items()}
        for of_name, problem in inconsistencies(config, texts, self._failed):
            if of_name is None:
                self._problems.append(problem)
            else:
                effective = render_value(config[of_name]) if of_name in BROKER_SETTINGS else None
                self._fail(of_name, problem, effective or "")
        if stores and self._failed.isdisjoint(("listeners", "listener.security.protocol.map")):
            self._problems += unusable_stores(config)
        if self._problems:
            raise ConfigError(*self._problems)
        self._unused.of_kafka += [key.name for key in WITHOUT_EFFECT if key.name in static]
        if SECURITY_BETWEEN in static and not config.in_cluster:
            self._unused.of_kafka.append(SECURITY_BETWEEN)
        return LoadedConfig(config, [*([cut] if cut else []), *advice.warnings(config, self._unused)])

    def _fail(self, name: str, problem: object, effective: str = "") -> None:
        """Record a problem. `effective`: the effective value, if it differs from the given text."""
        setting = self._texts.get(name)
        where = f" ({setting.where})" if setting is not None else ""
        text = effective or (setting.text if setting is not None else "")
        self._problems.append(f"{name}={'(hidden)' if _is_secret(name) else text}{where}: {problem}")
        self._failed.add(name)

    def _resolve_references(self) -> None:
        try:
            providers = Providers({name: setting.text for name, setting in self._texts.items()})
        except InvalidValue as problem:
            self._fail(PROVIDERS, problem)
            # If a setting's value contains a reference, the value is unknown here. Checking it could report a problem
            # that does not exist.
            self._failed |= {name for name, setting in self._texts.items() if "${" in setting.text}
            return
        for name, setting in self._texts.items():
            if name.startswith(PROVIDERS):
                continue
            try:
                self._texts[name] = setting._replace(text=providers.resolve(setting.text).strip())
            except InvalidValue as problem:
                self._fail(name, problem)

    def _take(self, name: str, setting: Setting) -> None:
        if name in self._failed:
            return
        key, of_listener = BROKER_SETTINGS.get(name), listener_setting(name)
        try:
            if of_listener is not None:
                check_listener_setting(of_listener, setting.text)
                self._listener_settings[name] = setting.text
            elif key is not None:
                self._static[name] = render_value(key.parse(setting.text)) or ""
            else:
                self._take_foreign(name, setting)
        except InvalidValue as problem:
            self._fail(name, problem)

    def _take_foreign(self, name: str, setting: Setting) -> None:
        """Refuse or ignore a setting that this broker does not have."""
        if foreign_settings.is_of_providers(name):
            return
        remedy = foreign_settings.refusal(name, setting.text)
        if remedy is not None:
            raise InvalidValue(remedy)
        if foreign_settings.is_foreign(name):
            self._unused.of_kafka.append(name)
            return
        if name in foreign_settings.OF_THE_PAST:
            self._unused.of_the_past.append(name)
            return
        if name in foreign_settings.NAMES_OF_OTHERS:
            self._unused.of_others.append(name)
            return
        known = (*BROKER_SETTINGS, *foreign_settings.REFUSED, PROVIDERS)
        nearest = nearest_name(name, known) or nearest_listener_setting(name)
        problem = f"unknown setting; did you mean {nearest}?" if nearest else None
        if problem is None and foreign_settings.is_of_others(name):
            self._unused.of_others.append(name)
            return
        problem = problem or foreign_settings.protection(name, setting.text)
        if problem is None:
            self._unused.unknown.append(name)
        else:
            self._problems.append(f"{name} ({setting.where}): {problem}")

    def _drop_controller_listeners(self) -> None:
        """Drop the listener of a KRaft controller, which Kafka's sample file contains. In pybroker the controller is
        part of the broker's process."""
        names = self._texts.get(CONTROLLERS)
        if names is None:
            return
        controllers = {name.strip().upper() for name in names.text.split(",")}
        if self._static.get(METADATA_STORE) == QUORUM:
            # The addresses of the voters belong to this listener, so brokers may use the listener too.
            controllers.discard(self._static.get(BETWEEN, "").upper())
        for setting in ("listeners", "advertised.listeners"):
            if setting in self._static:
                kept = [
                    item
                    for item in self._static[setting].split(",")
                    if item.partition("://")[0].strip().upper() not in controllers
                ]
                if kept:
                    self._static[setting] = ",".join(kept)
                else:
                    self._fail(setting, "all listeners are for controllers; add a listener for clients")


def _is_secret(name: str) -> bool:
    of_listener = listener_setting(name)
    if of_listener is not None:
        return of_listener.sensitive
    return BROKER_SETTINGS[name].sensitive if name in BROKER_SETTINGS else foreign_settings.is_secret(name)

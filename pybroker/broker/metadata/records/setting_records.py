"""Writes and reads settings, users, quotas and feature levels as ConfigRecord, UserScramCredentialRecord,
ClientQuotaRecord and FeatureLevelRecord, and the records that remove them.

In the image, each value is the text of the znode in ZooKeeper. If Kafka's record cannot reproduce this text exactly, a
field of a NoOpRecord stores the text itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pybroker.broker.metadata.feature_levels import FeaturesImage
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.broker.metadata.quota_nodes import (
    OF_ADDRESSES,
    OF_CLIENTS,
    Entity,
    QuotaKind,
    entity_of,
    path_of,
)
from pybroker.broker.metadata.records.frames import UnreadableRecordError, encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.protocol import messages as m
from pybroker.protocol.scram import BY_NAME, ScramCredential, ScramMechanism

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""Kafka's resource types."""
USER, QUOTAS = 64, 65
"""pybroker's own resource types, in NoOpRecord only: users by name, and other quotas by path."""
FIELDS: Mapping[int, str] = {
    BROKER: "broker_configs",
    GROUP: "group_configs",
    CLIENT_METRICS: "client_metrics",
    USER: "users",
    QUOTAS: "quotas",
}
"""Resource type → field of image and delta. Topics are missing, because a topic's image contains its settings."""
TEXT_BYTES_MAX = 0x7FFF
"""Length limit of a text in Kafka's record, because Kafka cannot read longer texts."""
SAME_VERSION = -2
_QUOTA_KINDS = {**OF_CLIENTS, **OF_ADDRESSES}


def delta_setting_frames(before: ClusterImage, delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of all settings in a delta, except those of topics."""
    for kind, field in FIELDS.items():
        known: Mapping[str, ConfigImage] = getattr(before, field)
        changed: Mapping[str, ConfigImage] = getattr(delta, field)
        for name, node in changed.items():
            old = known[name].config if name in known else {}
            yield from setting_frames(kind, name, old, node.config, facts)
            facts.add("config_versions", m.NoOpRecord_ConfigVersion(kind, name, node.version))
            yield from facts.full()


def setting_frames(
    kind: int, name: str, old: Mapping[str, str], new: Mapping[str, str], facts: OwnFacts
) -> Iterator[bytes]:
    """Yield the records for the differences between two states of a resource's settings."""
    if old is new:
        return
    changes: dict[str, str | None] = {key: value for key, value in new.items() if old.get(key) != value}
    changes.update((key, None) for key in old if key not in new)
    for key, value in changes.items():
        record = _record(kind, name, key, value)
        if record is None:
            facts.add("config_entries", m.NoOpRecord_ConfigEntry(kind, name, key, value))
        else:
            yield encode_record(record)


def _record(kind: int, name: str, key: str, value: str | None) -> object | None:
    if kind not in (USER, QUOTAS):
        fits = value is None or len(value) * 4 <= TEXT_BYTES_MAX or len(value.encode()) <= TEXT_BYTES_MAX
        return m.ConfigRecord(kind, name, key, value) if fits else None
    mechanism = BY_NAME.get(key)
    if kind == USER and mechanism is not None:
        return _credential_record(name, mechanism, value)
    quota = _QUOTA_KINDS.get(key)
    entity: Entity | None = (("user", name),) if kind == USER else _entity_of(name)
    return None if quota is None or entity is None else _quota_record(entity, key, quota, value)


def _credential_record(user: str, mechanism: ScramMechanism, text: str | None) -> object | None:
    if text is None:
        return m.RemoveUserScramCredentialRecord(user, int(mechanism))
    try:
        credential = ScramCredential.parse(text)
    except ValueError:
        return None
    if credential.render() != text or not 0 <= credential.iterations < 2**31:
        return None
    return m.UserScramCredentialRecord(
        name=user,
        mechanism=int(mechanism),
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _entity_of(path: str) -> Entity | None:
    entity = entity_of(path)
    return entity if entity is not None and path_of(entity) == path else None


def _quota_record(entity: Entity, key: str, kind: QuotaKind, text: str | None) -> object | None:
    value = 0.0
    if text is not None:
        try:
            value = float(text)
        except ValueError:
            return None
    return m.ClientQuotaRecord(
        entity=[m.ClientQuotaRecord_EntityData(*part) for part in entity],
        key=key,
        value=value,
        remove=text is None,
        text="" if text is None or text == _quota_text(kind, value) else text,
    )


def _quota_text(kind: QuotaKind, value: float) -> str:
    return str(int(value)) if kind.integral and value.is_integer() else repr(value)


def feature_frames(before: FeaturesImage, after: FeaturesImage, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of changed feature levels."""
    for name, level in after.levels.items():
        if before.levels.get(name) != level:
            yield encode_record(m.FeatureLevelRecord(name, level))
    for name in before.levels.keys() - after.levels.keys():
        yield encode_record(m.FeatureLevelRecord(name=name, removed=True))
    facts.set("features_version", after.version)


class SettingReader:
    """Reads settings, except those of topics, from records. The records contain differences from an image."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._versions: dict[tuple[int, str], int] = {}
        self._levels: dict[str, int] | None = None
        self._features_version = SAME_VERSION

    def entry(self, kind: int, name: str, key: str, value: str | None) -> None:
        """Read one setting."""
        set_entry(self._config(kind, name), key, value)

    def credential(self, record: m.UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self.entry(USER, record.name, _mechanism_name(record.mechanism), credential.render())

    def remove_credential(self, record: m.RemoveUserScramCredentialRecord) -> None:
        self.entry(USER, record.name, _mechanism_name(record.mechanism), None)

    def quota(self, record: m.ClientQuotaRecord) -> None:
        kind = _QUOTA_KINDS.get(record.key)
        if kind is None:
            raise UnreadableRecordError(f"quota {record.key!r} is unknown")
        text = None if record.remove else record.text or _quota_text(kind, record.value)
        entity: Entity = tuple((part.entity_type, part.entity_name) for part in record.entity)
        match entity:
            case (("user", str(user)),):
                self.entry(USER, user, record.key, text)
            case _:
                self.entry(QUOTAS, path_of(entity), record.key, text)

    def versions(self, structs: list[Any]) -> None:
        """Read the versions of resources from NoOpRecord."""
        for struct in structs:
            self._versions[struct.resource_type, struct.resource_name] = struct.version

    def level(self, record: m.FeatureLevelRecord) -> None:
        if self._levels is None:
            self._levels = dict(self._before.features.levels)
        if record.removed:
            self._levels.pop(record.name, None)
        else:
            self._levels[record.name] = record.feature_level

    def features_version(self, version: int) -> None:
        """Read the version of the feature levels from NoOpRecord."""
        if version != SAME_VERSION:
            self._features_version = version

    def features(self) -> FeaturesImage | None:
        """Return the feature levels; None if the records contain no levels."""
        known = self._before.features
        if self._levels is None and self._features_version == SAME_VERSION:
            return None
        return FeaturesImage(
            known.levels if self._levels is None else self._levels,
            known.version if self._features_version == SAME_VERSION else self._features_version,
        )

    def settings(self) -> dict[str, dict[str, ConfigImage]]:
        """Return the changed settings, by field of the delta."""
        found: dict[str, dict[str, ConfigImage]] = {field: {} for field in FIELDS.values()}
        for kind, name in {**self._configs, **self._versions}:
            known = self._known(kind, name)
            config = self._configs.get((kind, name), known.config)
            found[FIELDS[kind]][name] = ConfigImage(config, self._versions.get((kind, name), known.version))
        return found

    def _config(self, kind: int, name: str) -> dict[str, str]:
        config = self._configs.get((kind, name))
        if config is None:
            config = self._configs[kind, name] = dict(self._known(kind, name).config)
        return config

    def _known(self, kind: int, name: str) -> ConfigImage:
        field = FIELDS.get(kind)
        if field is None:
            raise UnreadableRecordError(f"settings of resource type {kind} are unknown")
        known: Mapping[str, ConfigImage] = getattr(self._before, field)
        return known.get(name, _NO_SETTINGS)


_NO_SETTINGS = ConfigImage({}, -1)


def set_entry(config: dict[str, str], key: str, value: str | None) -> None:
    """Set or remove a setting."""
    if value is None:
        config.pop(key, None)
    else:
        config[key] = value


def _mechanism_name(code: int) -> str:
    try:
        return ScramMechanism(code).mechanism_name
    except ValueError:
        raise UnreadableRecordError(f"SCRAM mechanism {code} is unknown") from None

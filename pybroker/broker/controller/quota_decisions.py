"""Decisions about client quotas. Pure; the caller has validated the values."""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.broker.cluster.events import AlterClientQuotas
from pybroker.broker.controller.decision import Decision, Steps, decides
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Create, Operation, Set
from pybroker.broker.metadata.quota_nodes import entity_of, is_credentials, parents_of, path_of, user_of_path
from pybroker.broker.metadata.znodes import encode_config

_NO_NODE = ConfigImage({}, -1)


@decides(AlterClientQuotas)
def decide_alter_client_quotas(image: ClusterImage, event: AlterClientQuotas) -> Decision:
    """Change quotas; each entity succeeds or fails independently. An event may name an entity several times. A user's
    quotas and credentials share a znode."""
    wanted: dict[str, Mapping[str, str]] = {}
    for change in event.changes:
        path = path_of(change.entity)
        before = wanted[path] if path in wanted else _known(image, path).config
        merged: dict[str, str | None] = {**before, **change.values}
        wanted[path] = {name: value for name, value in merged.items() if value is not None}
    nodes: dict[str, ConfigImage] = {}
    steps = Steps()
    for path, config in wanted.items():
        if config == _known(image, path).config:
            continue
        unit: list[Operation] = []
        for parent in parents_of(path):
            if nodes.get(parent, _known(image, parent)).version < 0:
                unit.append(Create(parent, encode_config({}) if entity_of(parent) else b""))
                nodes[parent] = ConfigImage({}, 0)
        known = nodes.get(path, _known(image, path))
        data = encode_config(dict(config))
        unit.append(Create(path, data) if known.version < 0 else Set(path, data, known.version))
        nodes[path] = ConfigImage(config, known.version + 1)
        steps.add([unit])
    delta = ImageDelta(
        users={user_of_path(path): node for path, node in nodes.items() if is_credentials(path)},
        quotas={path: node for path, node in nodes.items() if not is_credentials(path)},
    )
    return Decision(tuple(steps.operations), delta, [None] * len(event.changes), seams=tuple(steps.seams))


def _known(image: ClusterImage, path: str) -> ConfigImage:
    if is_credentials(path):
        return image.users.get(user_of_path(path), _NO_NODE)
    return image.quotas.get(path, _NO_NODE)

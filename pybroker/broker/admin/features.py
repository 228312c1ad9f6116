"""Reads and changes the cluster's feature levels (KIP-584), independent of protocol versions."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import FeatureChange, UpdateFeatures
from pybroker.broker.metadata.feature_levels import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class FeatureAdmin:
    """The feature requests: reads the cluster view and submits changes to the controller."""

    def __init__(self, view: ClusterView, controller: ControllerClient) -> None:
        self._view = view
        self._controller = controller

    def require_consumer_groups(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if consumer groups (KIP-848) are disabled."""
        self._require(GROUP_VERSION, "KIP-848 consumer groups")

    def require_share_groups(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if share groups are disabled."""
        self._require(SHARE_VERSION, "share groups")

    def require_streams_groups(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if streams groups are disabled."""
        self._require(STREAMS_VERSION, "streams groups")

    def _require(self, feature: str, groups: str) -> None:
        if self._view.image.features.level(feature) < 1:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"Feature {feature} is at level 0, which disables {groups}."
            )

    async def update(
        self, changes: Sequence[FeatureChange], timeout_ms: int, caller: Caller, *, validate_only: bool
    ) -> None:
        """Change features: all, or none if there is an error. Raises KafkaError INVALID_REQUEST if the request is
        malformed, INVALID_UPDATE_VERSION if a level is unknown, or if a level would rise where the request lowers it,
        or the reverse.
        """
        names = [change.name for change in changes]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Feature {twice!r} is named more than once.")
        event = UpdateFeatures(tuple(changes), validate_only)
        answer = await self._controller.submit(event, max(timeout_ms, 0), caller=caller)
        if changes and not validate_only:
            levels = {change.name: change.level for change in changes}
            log.info("feature levels changed by=%r: %s", caller.principal, levels)
        if answer.late is not None:
            raise answer.late

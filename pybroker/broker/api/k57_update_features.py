"""UpdateFeatures (key 57), versions 0–2 (KIP-584, KIP-1022).

Behavior
- All levels change, or none. ApiVersions reports the levels in force.
"""

from __future__ import annotations

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.cluster.events import FeatureChange, UpgradeType
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequest_FeatureUpdateKey,
    UpdateFeaturesResponse,
    UpdateFeaturesResponse_UpdatableFeatureResult,
)

API_KEY = 57

KINDS = frozenset(map(int, UpgradeType))


async def handle(
    features: FeatureAdmin, authorizer: Authorizer, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Respond when every broker has applied the levels. Needs ALTER on the cluster."""
    try:
        authorizer.require_cluster(context, AclOperation.ALTER)
        changes = [_change(feature_update, context.api_version) for feature_update in request.feature_updates]
        validate_only = request.validate_only and context.api_version >= 1
        await features.update(changes, request.timeout_ms, context.caller, validate_only=validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    results = [
        UpdateFeaturesResponse_UpdatableFeatureResult(feature=change.name, error_message=None) for change in changes
    ]
    return UpdateFeaturesResponse(error_message=None, results=results if context.api_version < 2 else [])


def _change(one: UpdateFeaturesRequest_FeatureUpdateKey, version: int) -> FeatureChange:
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if one.allow_downgrade else UpgradeType.UPGRADE
    elif one.upgrade_type in KINDS:
        kind = UpgradeType(one.upgrade_type)
    else:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Unknown upgrade type {one.upgrade_type}.")
    return FeatureChange(one.feature, one.max_version_level, kind)

"""IngestAbort (key 32153, pybroker's own), version 0: drops an open ingest.

Behavior
- If the ingest is already committed, the request changes nothing, and the response says that it is committed.
"""

from __future__ import annotations

from pybroker.broker.ingest.ingest_access import IngestAccess, check_name
from pybroker.broker.ingest.ingest_pages import wire_state
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation
from pybroker.protocol.messages import IngestAbortRequest, IngestAbortResponse

API_KEY = 32153


async def handle(
    ingests: Ingests, access: IngestAccess, context: RequestContext, request: IngestAbortRequest
) -> IngestAbortResponse:
    """Respond when the ingest has ended. Its staged data is then removed, or will be removed later if the disk fails.
    """
    access.check_cluster(request.cluster_id)
    check_name(request.ingest_id, request.batch_id)
    access.topic(context, request.topic_id, AclOperation.WRITE, AclOperation.ALTER)
    key = (request.topic_id, request.ingest_id, request.batch_id)
    state = await ingests.abort(key, request.epoch, context.caller)
    return IngestAbortResponse(state=wire_state(state))

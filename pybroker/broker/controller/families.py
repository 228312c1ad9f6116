"""The modules with decisions. Importing them registers the decisions."""

from __future__ import annotations

from pybroker.broker.controller import (
    brokers,
    client_quotas,
    configs,
    dead_transactions,
    delegation_tokens,
    elect_leaders,
    features,
    ingests,
    isr,
    log_ends,
    migration,
    purge,
    reassignment,
    security,
    topic_deletion,
    topics,
    truncate,
    undelete,
    unregister,
)

FAMILIES = (
    brokers,
    client_quotas,
    configs,
    dead_transactions,
    delegation_tokens,
    elect_leaders,
    features,
    ingests,
    isr,
    log_ends,
    migration,
    purge,
    reassignment,
    security,
    topic_deletion,
    topics,
    truncate,
    undelete,
    unregister,
)

"""The modules with decision functions. Importing them registers the functions."""

from __future__ import annotations

from pybroker.broker.controller import (
    broker_decisions,
    config_decisions,
    dead_transactions,
    election_decisions,
    feature_decisions,
    ingest_decisions,
    isr_decisions,
    log_end_decisions,
    migration_decisions,
    purge,
    reassignment_decisions,
    registration_decisions,
    security_decisions,
    topic_decisions,
    topic_deletion,
    truncate,
    undelete,
    unregister,
)

DECISION_MODULES = (
    broker_decisions,
    config_decisions,
    dead_transactions,
    election_decisions,
    feature_decisions,
    ingest_decisions,
    isr_decisions,
    log_end_decisions,
    migration_decisions,
    purge,
    reassignment_decisions,
    registration_decisions,
    security_decisions,
    topic_deletion,
    topic_decisions,
    truncate,
    undelete,
    unregister,
)

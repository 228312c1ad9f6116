"""Errors that a user of the data source meets; the texts say what to do."""

from __future__ import annotations


class SparkSourceError(Exception):
    """Base of what the data source refuses."""


class OptionError(SparkSourceError):
    """An option that is unknown, missing or has an unusable value."""


class TopicChangedError(SparkSourceError):
    """A checkpoint or a job belongs to a topic that was deleted, re-created or truncated, or to another cluster."""


class TopicGoneError(TopicChangedError):
    """A topic was deleted between two questions about it."""


class DataLossError(SparkSourceError):
    """Records between a checkpoint and the log's start are gone (`failOnDataLoss`)."""


class IngestError(SparkSourceError):
    """The broker refused a step of a staged ingest."""

"""Asks the broker for the progress of a running load, and aborts the load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.spark.cluster_requests import SparkCluster


class StagedProgress:
    """Rows and bytes that the broker has staged for a load; polled while the job runs."""

    def __init__(self, cluster: SparkCluster, topic_id: str | None, ingest_id: str) -> None:
        """`topic_id` is None while the topic does not exist."""
        self._cluster, self.topic_id, self._ingest_id = cluster, topic_id, ingest_id
        self._last = (0, 0)
        self.begun = False

    def given_up(self) -> str:
        """Abort the load unless it is already committed or aborted, and return the outcome as text. Spark is not used,
        because it may have ended."""
        from pybroker.native import NativeError
        from pybroker.spark import ingest_steps as steps
        from pybroker.spark.source_errors import SparkSourceError

        if not self.begun or self.topic_id is None:
            return f"ingest {self._ingest_id} had not started; nothing was written"
        try:
            state = steps.abort(self._cluster, self.topic_id, self._ingest_id)
        except (NativeError, SparkSourceError) as error:
            return f"cannot abort ingest {self._ingest_id}; run `pybroker ingest abort` later: {error}"
        if state is steps.LoadState.ABSENT:
            return f"ingest {self._ingest_id} was aborted; nothing was written to the topic"
        return f"ingest {self._ingest_id} is {state.name.lower()}; its records are in the topic"

    def found(self) -> Any | None:
        """Return the load as the broker reports it. Ignore ingests with the same id of other topics or streams."""
        from pybroker.spark import ingest_steps as steps

        if self.topic_id is None:
            return None
        listed = steps.listed(self._cluster, [self.topic_id], self._ingest_id)
        return next((each for each in listed if each.batch_id == steps.NO_BATCH), None)

    def __call__(self) -> tuple[int, int]:
        from pybroker.native import NativeError
        from pybroker.spark.source_errors import SparkSourceError

        try:
            found = self.found()
        except (NativeError, SparkSourceError):
            return self._last  # The job itself reports the error; the progress bar keeps its last value.
        if found is not None:
            self._last = (found.rows, found.bytes)
        return self._last

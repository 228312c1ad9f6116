"""`format("pybroker")` for Spark: batch and streaming, reading and writing, without jars.

Rows travel as Arrow batches between Spark and the native core, which builds record batches and talks to the brokers;
Python only plans. Reading and `mode=append` work with any broker that has topic ids (Apache Kafka 2.8 or newer); the
default `mode=exactly-once` needs pybroker's staged ingest (docs/staged-ingest.md).

| module | subject |
|---|---|
| `source` | the entry points that Spark calls |
| `options` | the user's options |
| `cluster` | requests of the driver: topics, offsets, groups |
| `positions` | offsets with their cluster and topic ids: the checkpoint |
| `starting` | start and end of a read |
| `fencing` | comparison of a checkpoint with the current topics |
| `plan` | offset ranges of the tasks |
| `reader`, `stream_reader` | reading |
| `target` | topic of a write, and its creation |
| `writer`, `stream_writer`, `ingest` | writing, and the commit that makes it exactly once |
"""

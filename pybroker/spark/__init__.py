"""`format("pybroker")` for Spark: batch and streaming, reading and writing, without jars.

Rows are passed as Arrow batches between Spark and the native core, which builds record batches and sends requests to
the brokers; Python only plans. Reading and `mode=append` work with any broker that has topic ids (Apache Kafka 2.8 or
newer). The default `mode=exactly-once` needs pybroker's staged ingest (docs/staged-ingest.md).

- `source`: the entry points that Spark calls
- `source_options`: the user's options
- `cluster_requests`: requests of the driver: topics, offsets, groups
- `checkpoint_positions`: offsets with their cluster and topic ids: the checkpoint
- `read_bounds`: start and end of a read
- `fencing`: comparison of a checkpoint with the current topics
- `offset_ranges`: offset ranges of the tasks
- `batch_reader`, `stream_reader`: reading
- `write_target`: topic of a write, and its creation
- `batch_writer`, `stream_writer`, `ingest_steps`: writing, and the commit that makes it exactly once
"""

"""`format("pybroker")` for Spark: batch and streaming, both ways, without jars.

Rows travel as Arrow batches between Spark and the native core, which makes record batches of them and speaks to the
brokers; Python only plans. Reading and `mode=append` work with any broker that has topic ids (Apache Kafka 2.8 or
newer); the default `mode=exactly-once` needs pybroker's staged ingest (docs/staged-ingest.md).

| module | answers |
|---|---|
| `source` | what Spark calls |
| `options` | what the user may say |
| `cluster` | what the brokers say: topics, offsets, groups |
| `positions` | offsets with the cluster and topic ids they belong to: the checkpoint |
| `starting` | where a read begins and ends |
| `fencing` | does a checkpoint still fit what is there? |
| `plan` | which task reads which range |
| `reader`, `stream_reader` | reading |
| `target` | which topic a write goes to, and making it |
| `writer`, `stream_writer`, `ingest` | writing, and the commit that makes it exactly once |
"""

"""Streams groups (KIP-1071): instances of a Kafka Streams application heartbeat, the coordinator makes the internal
topics known and assigns tasks. Stands on the shards of `group`."""

"""Streams groups (KIP-1071): Kafka Streams with group.protocol=streams."""

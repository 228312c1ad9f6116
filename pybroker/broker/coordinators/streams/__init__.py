"""Streams groups (KIP-1071).

Instances of a Kafka Streams application heartbeat; the coordinator reports missing internal topics and assigns
tasks. Uses the shards of `group`.
"""

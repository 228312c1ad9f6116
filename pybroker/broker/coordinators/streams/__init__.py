"""Streams groups (KIP-1071).

Instances of a Kafka Streams application send heartbeats. The coordinator reports missing internal topics, and assigns
tasks.
"""

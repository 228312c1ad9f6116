"""Kafka's wire protocol in Python: types and tables, no logic. native/protocol encodes and decodes."""

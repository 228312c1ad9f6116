"""Kafka's wire protocol in Python: types and tables without logic. native/protocol encodes and decodes."""

"""Kafka's wire protocol as Python sees it: types and tables, no logic. Bytes are read and written in native/protocol."""

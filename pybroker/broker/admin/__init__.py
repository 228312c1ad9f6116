"""The implementation of administrative requests, independent of protocol versions."""

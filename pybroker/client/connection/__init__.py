"""Connections to brokers: one connection, the connections of a client, authentication, and cluster metadata."""

"""Talking to brokers: one connection, all connections of a client, login, and what is known of the cluster."""

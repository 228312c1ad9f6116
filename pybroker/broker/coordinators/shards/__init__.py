"""Shared parts of coordinators whose state is the log of an internal topic, with one shard per partition.

This package does not depend on groups.
"""

"""The common parts of all coordinators: each stores its state in an internal topic, and has one shard per partition of
the topic.

This package does not depend on groups.
"""

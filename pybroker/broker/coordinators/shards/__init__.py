"""The common parts of all coordinators. Each coordinator stores its state in an internal topic, and has a shard for
each partition of this topic.

This package does not depend on groups.
"""

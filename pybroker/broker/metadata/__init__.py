"""The metadata store, its znodes, the immutable image of the cluster, and this broker's view of it."""

"""The metadata store and its znodes, the immutable image of the cluster, and the metadata that this broker's clients
see."""

"""The records of the metadata log: deltas and images of the cluster as bytes."""

"""The metadata quorum from Python's side: the log of the cluster's metadata, and the image that results from its
records."""

"""The metadata quorum as Python sees it: the log of the cluster's metadata, and the image that its records make."""

"""The control plane of a broker. Its data path is native code."""

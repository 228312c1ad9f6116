"""The control plane of a broker, besides its native data path."""

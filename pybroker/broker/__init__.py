"""The control plane: what a broker decides, stores and answers beside its native data path."""

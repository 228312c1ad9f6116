"""The shape of the code, checked."""

"""The control plane in simulated time: see docs/testing-in-depth.md."""

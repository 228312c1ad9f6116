"""The cost of a staged commit, and the effect of a bulk load on other producers."""

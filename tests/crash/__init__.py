"""kill -9 at every named step of a change of topics, then a normal start and a check of the state."""

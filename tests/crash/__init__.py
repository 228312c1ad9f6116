"""kill -9 at every named step of a change of topics; then a normal start and a look at what is there."""

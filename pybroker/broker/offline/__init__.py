"""Commands on data directories of a stopped broker. Each command holds every lock that a broker would hold."""

"""Commands on data directories of a stopped broker. Each holds every lock that a broker would hold."""

"""What is done to data directories while no broker runs: each command holds every lock a broker would hold."""

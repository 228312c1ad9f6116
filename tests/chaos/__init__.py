"""One seed, one run: a cluster of real processes with faults, clients that record their responses, and a check of every
replica's files at the end."""

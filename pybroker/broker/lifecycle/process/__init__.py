"""The process that a broker runs in: from a command line to an exit code, and the parent that it may not outlive."""

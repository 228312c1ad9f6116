"""The process of a broker: from the command line to an exit code, and the parent process whose end it follows."""

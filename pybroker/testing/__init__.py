"""For tests: `broker` runs one as a child process, `fixtures` is the pytest plugin and alone needs pytest."""

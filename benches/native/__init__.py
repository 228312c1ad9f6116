"""pytest-benchmark figures of native functions: the same code that serves the sockets, called from Python."""

"""pytest-benchmark cases of native functions: the code that serves the sockets, called from Python."""

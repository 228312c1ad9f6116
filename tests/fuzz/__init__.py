"""Fuzz tests of Python code that gets texts and bytes from outside. Tests run the `targets` over seeds; a fuzzer runs
them on demand."""

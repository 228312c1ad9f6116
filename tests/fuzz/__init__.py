"""What texts and bytes from outside can reach in Python: `targets`, run over seeds by tests and by a fuzzer by hand."""

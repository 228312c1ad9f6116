"""Code that texts and bytes from outside reach in Python: `targets`, run over seeds by tests, and by a fuzzer on
demand."""

"""Tests of the package's support for users' own tests."""

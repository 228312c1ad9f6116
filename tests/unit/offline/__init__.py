"""Tests of offline commands, with files that the tests write."""

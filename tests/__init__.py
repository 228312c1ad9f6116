"""Tests of the Python side and of the installed product."""

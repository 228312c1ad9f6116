"""What the package brings for tests of users' own."""

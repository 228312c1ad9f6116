"""Topics known by id against topics known by name."""

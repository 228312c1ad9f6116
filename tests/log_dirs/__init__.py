"""Several log directories (JBOD): moves between them, one that is lost, and how partitions lie in them."""

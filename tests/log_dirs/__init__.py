"""Several log directories (JBOD): moves between them, the loss of one, and the layout of partitions in them."""

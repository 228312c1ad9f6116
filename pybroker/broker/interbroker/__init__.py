"""Inter-broker protocol: requests between brokers over the inter-broker listener."""

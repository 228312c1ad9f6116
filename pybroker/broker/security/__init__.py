"""Who a client is and what it may do: credentials, SASL, access control lists."""

"""Authentication and authorization: credentials, SASL, access control lists."""

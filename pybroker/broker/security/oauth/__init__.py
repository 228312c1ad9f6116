"""Clients that log in by a token of an identity provider (SASL OAUTHBEARER; KIP-255, KIP-768): which keys there are
(`jwks`), how they are kept fresh (`provider`), whether a token is good (`token`), and what is said meanwhile
(`conversation`)."""

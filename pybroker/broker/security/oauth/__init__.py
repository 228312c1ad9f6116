"""SASL OAUTHBEARER (KIP-255, KIP-768): clients log in with a token of an identity provider.

The provider's keys (`jwks`), their refresh (`provider`), the check of tokens (`token`), and the SASL exchange
(`conversation`).
"""

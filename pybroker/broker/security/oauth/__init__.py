"""SASL OAUTHBEARER (KIP-255, KIP-768): clients log in with a token of an identity provider.

The provider's keys (`jwks`), their refresh (`provider_keys`), the check of tokens (`bearer_token`), and the SASL
exchange (`oauth_conversation`).
"""

"""One file per incoming API key: wire shape ↔ plain call. Versions are known here and nowhere below."""

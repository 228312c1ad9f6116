"""Members of share groups (KIP-932), which acknowledge records individually."""

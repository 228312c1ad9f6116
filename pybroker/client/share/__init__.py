"""Members of share groups (KIP-932): records that are acknowledged one by one."""

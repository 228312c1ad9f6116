"""What pages show, asked of the cluster. Nothing here knows HTTP."""

"""Programs that time one side each; a peer's program runs in the peer's environment."""

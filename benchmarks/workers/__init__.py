"""Programs that time one side each; those of peers run in the peers' own environments."""

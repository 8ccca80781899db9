"""The format of exported models, and reading them."""

"""The server: pages and an API for predictors; needs the extra `serve`."""

"""The live page of runs; needs the extra `serve`."""

"""Files: reading, atomic writing, checksums."""

"""X-ray: what filled the window in recorded agent sessions. Reads files, asks nobody, gives findings as data."""

"""X-ray: what filled the window in recorded agent sessions. Reads files, asks nobody, and gives the findings as data."""

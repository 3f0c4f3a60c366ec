"""The dashboard: what went into each window, what was left out and why, as web pages of the service."""

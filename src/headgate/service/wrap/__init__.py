"""Wrap: an agent with the gateway beside it, and a supervisor between them that no failure of the gateway gets past."""

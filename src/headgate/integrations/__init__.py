"""Integrations: Headgate inside agents and frameworks that people already use. Each is thin, and loads when it is used."""

"""Adapters to model and search services; each module loads only when it is used."""

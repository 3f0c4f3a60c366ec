"""Stores: where everything that must not be lost is kept. One contract, several houses."""

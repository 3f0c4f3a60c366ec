"""Headgate inside other frameworks: one file each, loaded only where it is imported."""

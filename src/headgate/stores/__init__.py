"""Stores: they keep everything that must not be lost. One contract, several backends.

Each backend is a folder with the same files: store, documents, attachments, records, keys.
"""

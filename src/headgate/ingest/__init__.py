"""Ingest: files, streams and rows become documents of chunks in a store."""

"""The stages: one verb a file. Import the module you mean; nothing is re-exported."""

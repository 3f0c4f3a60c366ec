"""A store in dictionaries, for tests, demos and short lives."""

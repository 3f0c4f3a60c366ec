"""Sessions: what happens over many calls of an agent."""

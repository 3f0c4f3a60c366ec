"""The proxy: an OpenAI- and Anthropic-compatible door in front of the models, with the guard in it."""

"""Internal: memory, which is what an agent remembers between requests. Start with memory.py, then facts.py.

Facts are remembered sentences with a trust (facts, fact_index, conflicts, maintenance). Providers are memories of
others that are asked with a deadline (provider_pool, providers, plugins). Reviews are questions that wait for a
person. Turns of a conversation become documents (sessions). Memory imports protocols and text, and neither stores nor
the pipeline.
"""

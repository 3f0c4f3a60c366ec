"""Internal: what an agent knows between requests. Start with memory.py and graph.py.

Memory: facts are remembered sentences with a trust (facts, fact_index, maintenance; injected keeps our own words
out of them), providers are memories of others, review holds questions that wait for a person, and turns makes documents
of a conversation. Graph: edges between named things (edges), the paths over them (paths), the project that a folder
belongs to (project), and signed slices of a conversation (slices cuts them, admissibility signs and verifies them).
Nothing here imports stores or the pipeline.
"""

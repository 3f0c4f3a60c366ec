"""Internal: the knowledge graph of a tenant, and signed slices of its conversations. Start with graph.py.

knowledge.py follows edges and scores paths, load.py reads edges from files and documents, neighborhood.py collects
the edges around nodes. kernel.py cuts a slice of a conversation and admission.py signs and verifies it. The graph
imports protocols and text, and neither stores nor the pipeline.
"""

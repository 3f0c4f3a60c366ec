"""Internal: how well chunks match a query, as arithmetic over arrays.

BM25 and idf (lexical), the posting format (fields), feedback, the walks from the best chunks (seeds) over shared names
and given edges (name_hop, edge_walk), and the best of an array (top). Kernels know the snapshot protocol, text and
types; they know neither the index behind a snapshot nor the stages that call them. Start with lexical.py, then
stages/retrieve.py, its caller.
"""

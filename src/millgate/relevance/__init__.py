"""Internal: what a chunk holds of a question, and how sure that is an answer.

A query becomes a Question with weighed terms (query_rewrite, query_terms). Against it stand the
model of relevance that packing and grading use, the excerpts of long chunks, and the cues of
conversations. The package knows rank and below, never a stage. Start with query_terms.py, then model.py.
"""

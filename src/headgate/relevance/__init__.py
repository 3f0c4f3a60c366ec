"""Internal: what a chunk holds of a question, and how sure that is an answer.

A query becomes a Question with weighed terms (query_rewrite, query_terms). Against it stand the
confidence that grading uses, the excerpts of long chunks, the cues of conversations, and what is left over beside the
window. The package knows rank and below, never a stage. Start with query_terms.py, then confidence.py.
"""

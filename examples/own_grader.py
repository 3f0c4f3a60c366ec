"""A grader of your own: how sure is it, from 0 to 1, that a chunk helps to answer the query?"""

from millgate import Millgate


class NeedsANumber:
    """Believes only passages with a digit in them; yours asks a model or a cross-encoder."""

    async def grade(self, query, candidates):
        return [float(any(c.isdigit() for c in each.chunk.text)) for each in candidates]


with Millgate.open(":memory:", grader=NeedsANumber()) as gate:
    gate.add([
        {"id": "exact", "text": "Refunds are paid within 14 days."},
        {"id": "vague", "text": "Refunds are paid soon."},
    ])  # fmt: skip
    context = gate.context("when are refunds paid?", budget=100)
    print([chunk.id for chunk in context.chunks], "|", context.why("vague")[-1].reason)

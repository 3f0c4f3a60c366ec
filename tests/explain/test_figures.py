"""What a request saved, as lists of requests show it."""

from millgate.explain.figures import tokens_saved
from millgate.gateway import Millgate


def test_a_stored_request_says_what_it_saved_in_its_row_and_its_last_stage():
    text = "Refunds are paid within 14 days to the card."
    with Millgate.open(":memory:") as gate:
        gate.add(
            [{"id": "a", "text": text}, {"id": "b", "text": "Send a photo of the refund label."}]
        )
        made = gate.context("refunds", window=[text], budget=500).trace
        (row,) = gate.traces()
        assert row.saved == tokens_saved(made) > 0
        assert gate.trace(row.id).steps[-1].facts["saved_tokens"] == row.saved
        assert "saved_tokens" not in made.steps[-1].facts, "the caller's own trace stays as it is"


def test_noise_that_was_not_sent_saves_nothing():
    rows = [
        {"id": f"n{n}", "text": f"The refund of parcel {n} left by rail on day {n}."}
        for n in range(40)
    ]
    rows.append({"id": "a", "text": "Refunds are paid within 14 days to the card."})
    with Millgate.open(":memory:") as gate:
        gate.add(rows)
        made = gate.context("when are refunds paid to the card?", budget=500)
        assert any(candidate.dropped for candidate in made.trace.candidates)
        assert tokens_saved(made.trace) == 0

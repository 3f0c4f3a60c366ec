"""Every view of the dashboard by name, with something to see on each: the calls of the demo, and more in its store."""

from contextlib import contextmanager

from tests.service.clients import served, until

from millgate.cli.demo import demo_settings, play
from millgate.gateway import Millgate

QUESTION = "How long do refunds take, and what does the customer have to send?"
CALLS = 17  # that the demo makes

VIEWS = {
    "sign in": "/sign-in",
    "window": "/",
    "requests": "/requests",
    "request": "/requests/{asked}",
    "candidate": "/requests/{asked}/chunk?chunk={dropped}",
    "why": "/requests/{asked}/why?chunk={dropped}",
    "call": "/requests/{cut}",
    "costs": "/costs?span=",
    "reviews": "/reviews",
    "review": "/reviews/{review}",
    "health": "/health",
    "not found": "/nothing",
}


@contextmanager
def demo_service():
    """A service in which the demo ran: its address, and the path of each view."""
    with demo_settings(0) as settings, served(settings) as (url, _):
        play(url)
        with Millgate.open(settings=settings) as gate:
            until(lambda: sum(bool(row.outcome) for row in gate.traces(limit=1000)) == CALLS)
            names = fill(gate)
        yield url, {name: f"/dashboard{path.format(**names)}" for name, path in VIEWS.items()}


def fill(gate):
    """Add a review; the ids that the paths need."""
    document = next(iter(gate.store.scan(gate.tenant, "main"))).document
    review = gate.reviews.ask("Who checks refunds?", collection="main", grades={document: 0.4}, reason="unsure")  # fmt: skip
    rows = gate.traces(limit=1000)
    *_, asked = (row.id for row in rows if row.query == QUESTION)
    cut = next(row.id for row in rows if row.outcome == "recovered")
    dropped = next(c.chunk.id for c in gate.trace(asked).candidates if c.dropped)
    return {"asked": asked, "cut": cut, "dropped": dropped, "review": review.id}  # fmt: skip

"""The scripted session that `millgate demo --serve` plays: a support agent, a refund, and what goes wrong.

Only the words are made up. The agent's calls go through the real proxy to a model that answers from this script, so
every window, cut, note and cap on the dashboard is one that happened.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MODEL = "demo-model"
SESSION = "refund-4711"
HEADERS = {
    "x-millgate-session": SESSION,
    "x-millgate-context": "on",
    "x-millgate-budget": "350",
    "x-millgate-window": "3000",
}

DOCUMENTS = (
    {"id": "refund-policy", "title": "Refund policy", "text": "Refunds are paid within 14 days to the card that was charged. A refund above 500 euros is checked by a second person, which takes two more days. Gift cards are not refunded in money; their value moves to a new card."},
    {"id": "refund-steps", "title": "How to ask for a refund", "text": "To get a refund the customer sends the order number and a photo of the parcel label. Without the photo the warehouse cannot match the parcel, and the refund waits."},
    {"id": "refund-steps-2023", "title": "How to ask for a refund (2023)", "text": "To get a refund the customer sends the order number and a photo of the parcel label by fax."},
    {"id": "late-parcels", "title": "Late parcels", "text": "A parcel without a scan for five days counts as lost. The shop then refunds at once and claims the money from the carrier."},
    {"id": "carriers", "title": "Carriers", "text": "Parcels with LX numbers travel with Luxline. Luxline answers claims within ten days; its desk is open on weekdays from eight to four."},
    {"id": "tone", "title": "How we write", "text": "We write short, kind sentences. We say what happens next and when. We never promise a date that the carrier has not confirmed."},
    {"id": "vouchers", "title": "Vouchers", "text": "A voucher of ten euros may be given once for every order that arrives more than a week late."},
    {"id": "service-log", "title": "Refund service log", "text": "refund ok 200 refund ok 200 refund ok 200 refund ok 200 " * 12},
    {"id": "warehouse", "title": "Warehouse hours", "text": "Parcels leave the warehouse every weekday at noon. Returned parcels are opened on the day they arrive."},
)  # fmt: skip

FACTS = (
    ("The customer of order 4711 prefers to be called in the afternoon.", ("customers",), (True, True)),
    ("Luxline loses about one parcel in a thousand.", ("carriers",), (True,)),
    ("The warehouse is closed on Mondays.", ("warehouse",), (False, False)),
    ("Order 4711 was paid with a credit card.", ("orders",), ()),
)  # fmt: skip

EDGES = (
    ("order 4711", "shipped_with", "Luxline"),
    ("order 4711", "ordered_by", "Maria Lund"),
    ("Luxline", "answers_claims_within", "ten days"),
    ("Maria Lund", "lives_in", "Odense"),
    ("Luxline", "has_depot_in", "Odense"),
)

QUESTIONS = (
    ("How long do refunds take, and what does the customer have to send?", {"max_tokens": 300, "current_window_text": "Refunds are paid within 14 days to the card that was charged."}),
    ("Who checks a refund of 800 euros?", {"max_tokens": 160}),
    ("When does a parcel count as lost?", {"max_tokens": 200, "context_length": 8000, "used_tokens": 6900}),
    ("May I give a voucher for a late order?", {"max_tokens": 60}),
    ("What is the wifi password of the office in Lisbon?", {"max_tokens": 300}),
    ("How long do refunds take, and what does the customer have to send?", {"max_tokens": 120}),
)  # fmt: skip
"""Asked without a model, each with what its window holds."""

SYSTEM = (
    "You are the support agent of a small shop. You read orders and replies with read_file, change them with edit_file, and ask "
    "the carrier with track_parcel. Answer in short, kind sentences. Say what happens next and when. Never promise a date that "
    "the carrier has not confirmed. If you cannot help, say so and name a colleague who can. "
) * 2

TOOLS = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {arg: {"type": "string"} for arg in arguments}},
        },
    }
    for name, description, arguments in (
        ("read_file", "Read a file of the support folder, such as orders/4711.md.", ("path",)),
        ("edit_file", "Replace the content of a file of the support folder.", ("path", "content")),
        ("track_parcel", "Ask the carrier where a parcel is, by its number.", ("number",)),
    )
)  # fmt: skip

_ORDER = """# Order 4711
Customer: Maria Lund, Odense. Ordered on 3 March, paid 64 euros with a credit card.
Items: one kettle (42 euros), two mugs (22 euros). Parcel LX-204 left the warehouse on 4 March at noon.
Carrier: Luxline. Promised: 7 March. Status: not delivered, no scan since 5 March.
Notes: the customer wrote on 12 March and asked for her money back. She has moved since the last order; the new address is on the
label. A colleague called her on 13 March and found nobody at home.
"""
_DRAFT = """# Reply to order 4711 (draft)
Dear Ms Lund, thank you for writing to us about your kettle and your mugs. We are sorry that they have not reached you.
We are looking for the parcel LX-204 together with the carrier, and we will write again as soon as we hear from them.
With kind regards, the support team.
"""
_SCAN = "LX-204: last scan 5 March 18:02, depot Odense. No scan since."


class Human(NamedTuple):
    """A person writes."""

    text: str


class Says(NamedTuple):
    """The model answers; `streams` are what its calls send, more than one if the guard cuts the first."""

    streams: tuple[str, ...]


class Uses(NamedTuple):
    """The model calls a tool, which gives a result."""

    tool: str
    arguments: Mapping[str, str]
    result: str


class Compacts(NamedTuple):
    """The agent replaces its history by a summary."""

    summary: str


Event = Human | Says | Uses | Compacts

_TRACK = Uses("track_parcel", {"number": "LX-204"}, _SCAN)

EVENTS: tuple[Event, ...] = (
    Human("Order 4711: the customer wants her money back. What do we tell her?"),
    Uses("read_file", {"path": "orders/4711.md"}, _ORDER),
    Uses("read_file", {"path": "replies/4711.md"}, _DRAFT),
    _TRACK,
    Says(("The parcel LX-204 has had no scan since 5 March, so it counts as lost. She gets her 64 euros back on her card within 14 days.",)),
    Human("Good. Does she have to send us anything for the refund?"),
    Says((
        "For a refund we need the order number and a photo of the label. Please ask her to check the parcel number, "
        + "then to check the label, " * 60,
        " That is all: since the parcel is lost, there is no label to photograph, and the order number is enough.",
    )),
    Human("Then write it into the reply, please."),
    Uses("read_file", {"path": "replies/4711.md"}, _DRAFT),
    Uses("edit_file", {"path": "replies/4711.md", "content": "Dear Ms Lund, your parcel is lost and your 64 euros are on their way."}, "written"),
    Uses("read_file", {"path": "orders/4711.md"}, _ORDER),
    Says(("The reply is written. It says that the parcel is lost and that she has her money within 14 days.",)),
    Human("Is there any news from the carrier?"),
    _TRACK, _TRACK, _TRACK, _TRACK, _TRACK,
    Says(("No. The carrier shows the same scan every time I ask, so asking again does not help. I suggest we file the claim.",)),
    Compacts("Summary so far: order 4711 (Maria Lund, parcel LX-204) is lost; the reply with the refund of 64 euros is written; the carrier has no news."),
    Human("File the claim with Luxline, then we are done."),
    Uses("edit_file", {"path": "claims/LX-204.md", "content": "Claim for LX-204, 64 euros, order 4711."}, "written"),
    Says(("The claim is filed. Luxline answers within ten days. Shall I remind you then?",)),
)  # fmt: skip


def streams() -> Iterator[str | Uses]:
    """What the model sends, call by call."""
    for event in EVENTS:
        if isinstance(event, Says):
            yield from event.streams
        elif isinstance(event, Uses):
            yield event


def conversations() -> Iterator[list[dict[str, Any]]]:
    """The messages of each call of the agent, in order."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for number, event in enumerate(EVENTS):
        if isinstance(event, Human):
            messages.append({"role": "user", "content": event.text})
            continue
        if isinstance(event, Compacts):
            messages[1:] = [{"role": "user", "content": event.summary}]
            continue
        yield list(messages)
        if isinstance(event, Says):
            messages.append({"role": "assistant", "content": event.streams[-1].strip()})
        else:
            messages += tool_messages(event, f"call_{number}")


def tool_messages(event: Uses, id: str) -> list[dict[str, Any]]:
    """A tool call and its result as the agent keeps them."""
    return [
        {"role": "assistant", "content": None, "tool_calls": [tool_call(event, id)]},
        {"role": "tool", "tool_call_id": id, "content": event.result},
    ]


def tool_call(event: Uses, id: str) -> dict[str, Any]:
    """A tool call as the model makes it."""
    arguments = json.dumps(dict(event.arguments))
    return {"id": id, "type": "function", "function": {"name": event.tool, "arguments": arguments}}

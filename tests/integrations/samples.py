"""What the tests of the integrations share: a small collection, and an answer that loops."""

from tests.sessions.compaction.sessions import session

from millgate import Millgate

ROWS = [
    {"id": "refunds", "text": "A refund takes five working days after the return was received."},
    {"id": "returns", "text": "Send a return to the depot in Leiden, with the order number on it."},
    {"id": "copy", "text": "A refund takes five working days, after the return was received!"},
    {"id": "boards", "text": "The keeper lifts the boards of the gate before the river rises."},
]
QUESTION = "How long does a refund take?"
FACT = "five working days"

INTRO = "The river rose in spring, and the keeper of the gate went out before dawn.\n"
UNIT = "He lifted the first board and looked at the water below him for a while. "
AFTER = "Then he went home and slept. The end."


def open_gate(rows=ROWS):
    gate = Millgate.open(":memory:")
    gate.add(rows)
    return gate


def tokens(text, size=4):
    return [text[i : i + size] for i in range(0, len(text), size)]


def looping(times=40):
    """Tokens of an answer that repeats itself."""
    return tokens(INTRO + UNIT * times)


RULE = "Never touch db/migrations, ask me before you change it."
SUMMARY = "We read src/app/module_3.py and src/app/module_4.py. load_page_4 is slow."
CURSOR = "The cursor of the importer is kept in redis-7."
NEEDS = "Where is the cursor of the importer kept?"


def long_session():
    """A conversation with a rule and a fact that its summary, SUMMARY, does not say."""
    return [*session(), {"role": "assistant", "content": CURSOR}]

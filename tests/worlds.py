"""Made worlds: small collections in which it is known what belongs to a question and what does not.

A world has a subject with a few passages, one passage about something else that a single given edge leads to, and
junk: passages about other things in the same words. Names are made up, so that nothing but the edge joins subject
and neighbor. Each seed gives another world, always the same.
"""

from dataclasses import dataclass
from random import Random

from millgate import Millgate
from millgate.types import Edge

SYLLABLES = [
    "bar",
    "cor",
    "dun",
    "fel",
    "gam",
    "hol",
    "jin",
    "kes",
    "lor",
    "mun",
    "nar",
    "pol",
    "quin",
    "ras",
    "sul",
    "tov",
    "ur",
    "vek",
    "wim",
    "yar",
    "zol",
]
PARTS = ["scheduler", "ledger", "cache", "parser", "broker", "crawler", "indexer", "mailer"]
VERBS = ["retries", "drops", "archives", "signs", "splits", "rejects", "copies", "sorts"]
THINGS = ["jobs", "invoices", "pages", "messages", "backups", "tickets", "images", "contracts"]
WHENS = [
    "after thirty seconds", "every night", "when the disk is full", "on the first of the month", "before a release",
    "once the queue is empty", "as soon as a person agrees", "during the weekly maintenance",
]  # fmt: skip
TIES = ["depends_on", "conflicts_with", "extends", "resolves", "uses"]


@dataclass(frozen=True)
class World:
    """What is stored, what the window holds of it, and what one edge leads to."""

    passages: dict[str, str]
    subject: tuple[str, ...]
    linked: str
    edge: Edge
    question: str

    @property
    def junk(self):
        return frozenset(self.passages) - {*self.subject, self.linked}

    def open(self, *, linked=True):
        """A gate over the world, with or without its edge."""
        gate = Millgate.open(":memory:")
        gate.add({"id": id, "text": text} for id, text in self.passages.items())
        if linked:
            gate.graph.link([self.edge])
        return gate

    def window(self, *, of_all=False):
        """What the model sees: all of the subject, or everything there is."""
        return [self.passages[id] for id in (self.passages if of_all else self.subject)]


def make_world(seed):
    """The world of a seed; of each third one the edge ends at passages, else at names that they write."""
    chance = Random(seed)
    names = list(dict.fromkeys("".join(chance.sample(SYLLABLES, 2)).title() for _ in range(60)))
    parts, verbs, things, whens = (
        chance.sample(some, len(some)) for some in (PARTS, VERBS, THINGS, WHENS)
    )

    def tell(name, n):
        return (
            f"The {parts[n % 8]} of {name} {verbs[(n * 3) % 8]} {things[(n * 5) % 8]} {whens[(n * 7) % 8]}. "
            f"{name} keeps {chance.randrange(2, 90)} {chance.choice(THINGS)} and {chance.choice(VERBS)} the rest."
        )  # fmt: skip

    name, neighbor, *others = names
    passages = {f"s{n}": tell(name, n) for n in range(3 + seed % 3)}
    subject = tuple(passages)
    passages["next"] = (
        f"{neighbor} was moved to Oslo by its owners, who pay {chance.randrange(100, 900)} euros a year for it. "
        f"Only Ms. {others[0]} may restart {neighbor}."
    )
    passages |= {f"j{n}": tell(other, chance.randrange(8)) for n, other in enumerate(others[1:25])}
    ids = [*passages]
    chance.shuffle(ids)
    ends = (subject[0], "next") if seed % 3 == 0 else (name, neighbor)
    edge = Edge(ends[0], chance.choice(TIES), ends[1])
    question = [
        f"When does the {parts[0]} of {name} touch {things[0]}?",
        f"Tell me everything about {name} and its {parts[1]}.",
        f"how does the {parts[1]} of {name.lower()} work with {things[(1 * 5) % 8]}?",
        f"What do I have to know about the {things[0]} of {name}?",
    ][seed % 4]
    return World({id: passages[id] for id in ids}, subject, "next", edge, question)


WORLDS = [make_world(seed) for seed in range(100)]

"""How many copies of a loop's unit the client gets, counted in its whole text and not asked of the guard."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from millgate.errors import LoopError
from millgate.guard import Guard, GuardPolicy, StreamMachine
from millgate.guard.detectors import SHORT, kind_of
from millgate.testing import ScriptedModel

ASK = ({"role": "user", "content": "Tell me about the keeper."},)
WORDS = (
    "river",
    "gate",
    "water",
    "board",
    "keeper",
    "the",
    "of",
    "and",
    "a",
    "it",
    "was",
    "no",
    "yes",
)
ENDS = (" ", " ", " ", " ", ", ", ". ", ".\n")
SIZES = (1, 3, 4, 7, 16, 50, 300, 5000)


def in_a_row(text, unit):
    """Characters of the longest stretch that lies inside the unit repeated for ever; 0 below one copy."""
    period, longest, at = len(unit), 0, 0
    while at + period <= len(text):
        end = at + period
        if text[at:end] not in unit * 2:
            at += 1
            continue
        while end < len(text) and text[end] == text[end - period]:
            end += 1
        longest, at = max(longest, end - at), end - period + 1
    return longest


def primitive(text):
    """The shortest unit that the text is whole copies of."""
    return text[: (text * 2).find(text, 1)]


def words(low, high):
    """Prose of so many characters."""
    pairs = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(ENDS)), min_size=1)
    text = pairs.map(lambda parts: "".join(word + end for word, end in parts))
    return st.tuples(text, st.integers(low, high)).map(
        lambda made: (made[0] * made[1])[: max(1, made[1])]
    )


def nested(most):
    """A run inside the unit: `no no no no, he said. `"""
    parts = st.tuples(words(1, most // 4), st.integers(1, 12), words(1, most // 3))
    return parts.map(lambda made: (made[0] * made[1])[: most * 2 // 3] + made[2])


def units(low, high):
    rows = st.lists(st.sampled_from(["x", "  ", "0", "yes"]), min_size=1, max_size=high // 4)
    table = rows.map(lambda cells: "| " + " | ".join(cells) + " |\n")
    art = st.text("  {}[]:,ab\n", min_size=low, max_size=high)
    every = st.one_of(words(low, high), words(low, high), nested(high), table, art).map(primitive)
    return every.filter(lambda unit: low <= len(unit) <= high)


def play(machine, answer, size):
    """Drive a machine whose every call gets `answer(n, text)`; the client's whole text."""
    machine.start()
    text = ""
    for n in itertools.count():
        said = answer(n, text)
        for start in range(0, len(said), size):
            text += "".join(machine.feed(said[start : start + size]))
            if machine.stalled:
                break
        if not machine.stalled:
            return text + "".join(machine.end())
        try:
            machine.resume()
        except LoopError:
            return text
    raise AssertionError("the loop above ends")


def comeback(unit, turns, leads, lengths):
    """A model that loops, and after each rollback says the unit again: from any point, or going straight on."""
    endless = unit * (max(2000, 14 * len(unit)) // len(unit) + 2)

    def answer(n, text):
        turn = turns[n % len(turns)]
        if n == 0:
            return leads[0] + endless[turn % len(unit) :][: max(1500, 12 * len(unit))]
        if turn is None:  # straight on from what the client has
            turn = max(i for i in range(len(unit) + 1) if text.endswith(unit[:i]))
        part = endless[turn % len(unit) :][: int(lengths[n % len(lengths)] * max(len(unit), SHORT))]
        return leads[n % len(leads)] + part + leads[-1]

    return answer


turns = st.lists(st.one_of(st.none(), st.integers(0, 2000)), min_size=3, max_size=4).filter(
    lambda drawn: drawn[0] is not None
)
leads = st.lists(st.one_of(st.just(""), words(1, 120)), min_size=2, max_size=4)
lengths = st.lists(st.sampled_from([0.5, 0.9, 0.99, 1, 1.5, 2, 2.9, 5, 10]), min_size=1, max_size=3)
resumes = st.sampled_from(["continuation", "prefill"])


@given(units(SHORT, 400), turns, leads, lengths, resumes, st.sampled_from(SIZES))
def test_a_loop_that_comes_back_after_each_rollback_never_shows_a_third_copy_of_its_unit(
    unit, turns, leads, lengths, resume, size
):
    assume(all(in_a_row(lead * 2, unit) == 0 for lead in leads))
    machine = StreamMachine(ASK, policy=GuardPolicy(resume=resume, hopeless_chars=1))
    text = play(machine, comeback(unit, turns, leads, lengths), size)
    assert machine.report.cuts
    # blanks in a row are left out when loops are compared, so such a unit is known some characters later
    later = SHORT if "  " in unit * 2 else 0
    assert in_a_row(text, unit) < 3 * len(unit) + later


@given(units(1, SHORT - 1), turns, leads, lengths, resumes, st.sampled_from(SIZES))
def test_of_a_short_unit_the_client_gets_some_characters_more_than_the_first_copy(
    unit, turns, leads, lengths, resume, size
):
    assume(all(in_a_row(lead * 2, unit) == 0 for lead in leads))
    machine = StreamMachine(ASK, policy=GuardPolicy(resume=resume, hopeless_chars=1))
    text = play(machine, comeback(unit, turns, leads, lengths), size)
    filler = kind_of(unit) not in ("prose", "code", "dull")
    assert in_a_row(text, unit) <= len(unit) + (200 if filler else 140)


UNIT = "He lifted the first board and looked at the water below him for a while. "


@pytest.mark.parametrize("resume", ["continuation", "prefill"])
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_a_model_that_can_only_loop_shows_two_copies_through_all_its_calls(resume, size):
    loop = "Then, before dawn:\n" + UNIT * 40
    guard = Guard(
        ScriptedModel([[loop[i : i + size] for i in range(0, len(loop), size)]]), resume=resume
    )
    received = []
    with pytest.raises(LoopError):
        await collect(guard, received)
    assert guard.report.rollbacks == 3
    assert 2 * len(UNIT) <= in_a_row("".join(received), UNIT) < 3 * len(UNIT)


async def collect(guard, received):
    async for piece in guard.stream("go"):
        received.append(piece)  # what came before an error must be kept


@pytest.mark.parametrize(
    "unit",
    [
        '| <a href="#k7">the gate</a> | <a href="#k8">it</a> |\n',
        '{\n                "kind": {\n                        "of": {\n          ',
    ],
    ids=["code", "sparse"],
)
def test_a_kind_that_is_cut_late_is_held_back_as_early_as_prose(unit):
    machine = StreamMachine(ASK)
    text = play(machine, lambda n, _: unit * 30 if n == 0 else unit[:-1], 4)
    assert machine.report.cuts[0].reason.startswith(tuple("456789"))  # copies at the verdict
    assert in_a_row(text, unit) < 3 * len(unit)

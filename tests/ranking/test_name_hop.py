"""The hop: mass goes to what answers the open part of the query, and never back to its giver."""

import numpy as np
import pytest

from millgate.index.indexes import Indexes
from millgate.protocols import Postings
from millgate.ranking.name_postings import (
    NamePostings,
    find_name_postings,
    find_written_names,
    strongest_names,
)
from millgate.ranking.score import (
    MOST,
    Weighing,
    contents,
    name_masses,
    novelty_shares,
    open_share,
    posting_shares,
    receive,
    receive_by_name,
    receptivity,
    spread,
)
from millgate.stores.temporary import TemporaryStore
from millgate.text.terms import terms
from millgate.types import Chunk, Document


def names_of(ords, owned):
    """One name that `ords` hold, and whether each seed owns it."""
    everywhere, nowhere = np.ones(len(ords), bool), np.zeros(len(ords), bool)
    return NamePostings(
        keys=np.array([7], np.uint64),
        owned=np.array(owned).reshape(-1, 1),
        ords=np.array(ords),
        which=np.zeros(len(ords), np.int64),
        inside=everywhere,
        titled=nowhere,
    )


def reach(names, posting_share, score_mass, seeds, *, receptive=1.0):
    """The chunks that are reached if all of them are as receptive."""
    ords, sent = spread(names, posting_share, score_mass, seeds)
    return receive(ords, sent, np.full(sent.shape, receptive))


def test_a_chunk_receives_by_what_it_holds_of_the_open_part_of_the_query():
    hits = Postings(np.array([0, 3, 1, 2, 3]), np.ones(5, np.uint16), np.array([2, 0, 3]))
    weights, seeds, ords = np.array([1.0, 9.0, 3.0]), np.array([0, 1]), np.array([2, 3, 4])
    # seed 0 holds the first term and leaves the third open; seed 1 the other way round
    assert receptivity(hits, weights, seeds, ords, least=0.2) == pytest.approx(
        np.array([[0.95, 0.95, 0.2], [0.2, 0.45, 0.2], [0.95, 1.2, 0.2]])
    )


def test_a_chunk_leaves_open_what_it_does_not_hold():
    hits = Postings(np.array([0, 3, 1, 2, 3]), np.ones(5, np.uint16), np.array([2, 0, 3]))
    term_weight = np.array([1.0, 0.0, 3.0])
    assert [open_share(hits, term_weight, chunk) for chunk in (0, 2, 3, 9)] == [
        0.75,
        0.25,
        0.0,
        1.0,
    ]
    assert open_share(hits, np.zeros(3), 3) == 1.0


def test_what_better_chunks_hold_already_is_not_new():
    hits = Postings(np.array([0, 3, 1, 2, 3]), np.ones(5, np.uint16), np.array([2, 0, 3]))
    term_weight = np.array([1.0, 0.0, 9.0])
    assert novelty_shares(hits, term_weight, np.array([0, 1, 2, 3])) == pytest.approx(
        [0.1, 0.3, 0, 0]
    )
    assert novelty_shares(hits, term_weight, np.array([3, 0, 1]), weight=0.5) == pytest.approx(
        [0.15, 0, 0]
    )


def test_without_known_terms_all_chunks_receive_the_same():
    none = Postings(np.zeros(0, np.int64), np.zeros(0, np.uint16), np.array([0]))
    found = receptivity(none, np.zeros(1), np.array([0]), np.array([1, 2]), least=0.2)
    assert found == pytest.approx(np.full((2, 2), 0.2))


def test_a_seed_gets_nothing_back_of_its_own():
    names = names_of([2, 5, 9], [True])
    mass = np.array([[1.0], [0.0]])
    reached = reach(names, np.array([0.5, 0.5, 0.5]), mass, np.array([5]))
    assert dict(zip(reached.ords.tolist(), reached.boost.tolist(), strict=True)) == {2: 0.5, 9: 0.5}


def test_given_mass_reaches_seeds_too():
    names = names_of([2, 5], [True])
    reached = reach(names, np.ones(2), np.array([[0.0], [1.0]]), np.array([5]))
    assert reached.ords.tolist() == [2, 5]


def test_a_hop_lifts_only_those_that_most_flows_to():
    count = 2 * MOST
    names = names_of(list(range(count)), [True])
    shares = np.linspace(1, 2, count)
    reached = reach(names, shares, np.array([[1.0], [0.0]]), np.array([count]))
    assert reached.ords.tolist() == list(range(count - MOST, count))


def test_a_name_with_more_mass_lifts_its_chunks_before_those_of_another():
    one, other = list(range(0, 2 * MOST, 2)), list(range(1, 2 * MOST, 2))
    names = NamePostings(
        keys=np.array([3, 7], np.uint64),
        owned=np.ones((1, 2), bool),
        ords=np.array([*one, *other]),
        which=np.repeat([0, 1], MOST),
        inside=np.ones(2 * MOST, bool),
        titled=np.zeros(2 * MOST, bool),
    )
    mass = np.array([[0.1, 0.9], [0.0, 0.0]])
    reached = reach(names, np.ones(2 * MOST), mass, np.array([2 * MOST]))
    assert reached.ords.tolist() == other


def test_a_chunk_gets_as_much_as_it_is_receptive_to():
    mass = np.array([[1.0], [0.0]])
    reached = reach(names_of([2, 9], [True]), np.ones(2), mass, np.array([5]), receptive=1 / 4)
    assert reached.boost.tolist() == [0.25, 0.25]


@pytest.fixture
def clubs():
    """Three names of two seeds: in two chunks, in four and the titles of three, and in one."""
    return NamePostings(
        keys=np.array([3, 5, 8], np.uint64),
        owned=np.array([[True, True, True], [False, True, False]]),
        ords=np.array([0, 6, 0, 1, 2, 7, 5, 0]),
        which=np.array([0, 0, 1, 1, 1, 1, 1, 2]),
        inside=np.array([True, True, True, True, True, True, False, True]),
        titled=np.array([False, False, False, False, True, True, True, False]),
    )


def test_a_seed_spreads_its_squared_score_over_the_names_that_lead_on_by_their_rarity(clubs):
    view = lines_of(*TALK, *(f"[2 May] {who}: well" for who in ("Ann", "Ben")))
    assert view.count == 8
    # ln 8/2 is twice ln 8/4; a name in one chunk leads nowhere
    masses = name_masses(view, clubs, np.array([0.8, 0.4]), without=np.zeros(0, np.uint64))
    assert masses == pytest.approx(np.array([[2 / 3, 1 / 3, 0], [0, 0.25, 0]]))
    without = name_masses(view, clubs, np.array([0.8, 0.4]), without=np.array([5], np.uint64))
    assert without == pytest.approx(np.array([[1, 0, 0], [0, 0, 0]]))


def test_a_name_gives_less_to_each_of_many_and_more_to_a_title(clubs):
    shares = posting_shares(clubs, gamma=0.5, title=3.0)
    half, head = 0.5**0.5, 3.0 * 3**-0.5
    want = [half, half, 0.5, 0.5, 0.5 + head, 0.5 + head, head, 1.0]
    assert shares == pytest.approx(want)


def test_a_chunk_is_labeled_by_the_name_through_which_most_reached_it(clubs):
    posting_flow = np.array([0.2, 0.9, 0.6, 0.1, 0.1, 0.1, 0.1, 0.3])
    assert strongest_names(clubs, posting_flow, np.array([6, 0])) == {0: 1, 6: 0}


def test_nothing_flows_through_no_names():
    reached = reach(names_of([], [True]), np.zeros(0), np.zeros((2, 1)), np.array([1]))
    assert len(reached.ords) == len(reached.boost) == 0


def view_of(*chunks):
    store = TemporaryStore()
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    return Indexes(store).snapshot("t", "main")


def lines_of(*lines):
    view = view_of(*(Chunk(f"c{n}", line, document=f"c{n}") for n, line in enumerate(lines)))
    assert view.conversational
    return view


TALK = (
    "[1 May] Ann: have you met Vega lately?",
    "[1 May] Vega: yes of course",
    "[1 May] Ann: and Vega was well",
    "[1 May] Ben: so I heard",
    "[1 May] Ann: good then",
    "[1 May] Ben: see you",
)


def test_a_name_that_no_chunk_has_leads_nowhere():
    found, names = find_written_names(lines_of(*TALK), ["nobody", "of the"], limit=10)
    assert found == []
    assert len(names.keys) == len(names.ords) == 0


PASSAGES = (
    ("The game", "They say that Marta Dias plays for Vega since the war."),
    ("Vega", "The club was founded by a clerk of the harbor."),
    ("The clerk", "He wrote to Vega about it."),
    ("Rivers", "It is said that Orla rows there."),
)


@pytest.fixture(scope="module")
def passages():
    texts = enumerate(PASSAGES)
    return view_of(*(Chunk(f"c{n}", t, document=f"c{n}", title=head) for n, (head, t) in texts))


def holders(names):
    """The chunks that hold each of the names, as sets of ordinals."""
    return {frozenset(names.ords[names.which == at].tolist()) for at in range(len(names.keys))}


def test_a_name_in_one_chunk_alone_leads_on_only_where_the_query_names_it(passages):
    [own] = passages.names(np.array([3]))
    assert holders(find_name_postings(passages, np.array([3]), limit=10, share=0.5)) == set()
    named = find_name_postings(passages, np.array([3]), limit=10, share=0.5, query=own)
    assert holders(named) == {frozenset({3})}


def test_a_name_that_too_many_chunks_hold_leads_nowhere_though_the_query_names_it(passages):
    everything = np.unique(np.concatenate(passages.names(np.arange(4))))
    names = find_name_postings(passages, np.array([2]), limit=2, share=0.5, query=everything)
    assert frozenset({0, 1, 2}) not in holders(names)
    assert all(names.counts > 0)


def test_a_name_is_found_in_whichever_case_it_is_written(passages):
    found, names = find_written_names(passages, ["marta dias", "CLERK", "rivers"], limit=10)
    assert found == ["marta dias", "CLERK", "rivers"]
    by_name = [set(names.ords[names.which == at].tolist()) for at in range(3)]
    assert by_name == [{0}, {1, 2}, {3}]
    assert names.title_counts.tolist() == [0, 1, 1]
    assert find_written_names(passages, ["clerk"], limit=1)[0] == []


def test_of_the_chunks_with_a_name_the_one_that_answers_takes_most():
    names = names_of([4, 6], [False])
    hits = Postings(np.array([6]), np.ones(1, np.uint16), np.array([1]))
    reached = receive_by_name(names, np.array([0.5, 0.5]), hits, np.array([2.0]), least=0.25)
    assert reached.ords.tolist() == [4, 6]
    assert reached.boost == pytest.approx([0.5 * 0.25 / 1.25, 0.5])


def test_a_name_in_a_title_is_told_from_one_in_a_text(passages):
    names = find_name_postings(passages, np.array([2]), limit=10, share=0.5)
    titled = dict(zip(names.ords.tolist(), names.titled.tolist(), strict=True))
    assert titled == {0: False, 1: True, 2: False}
    assert names.title_counts.tolist() == [1]


def test_in_a_conversation_a_speaker_is_not_what_a_line_is_about():
    names = find_name_postings(lines_of(*TALK), np.array([0]), limit=10, share=0.5)
    vega = {ord for ord, inside in zip(names.ords.tolist(), names.inside, strict=True) if inside}
    assert vega == {0, 2}


def test_in_a_conversation_the_terms_of_a_line_leave_out_who_speaks():
    view = lines_of(*TALK)
    spoken = {term for name in ("Ann", "Vega") for term in terms(name)}
    keys, *_ = contents(view, np.array([4]), Weighing(1.2, 0.75, 2.0, near=(0.5,)))
    assert set(terms("good")) <= set(keys.tolist())
    assert not spoken & set(keys.tolist())


def test_in_a_conversation_the_first_line_is_a_neighbor_like_any_other():
    keys, *_ = contents(lines_of(*TALK), np.array([1]), Weighing(1.2, 0.75, 2.0, near=(0.5,)))
    assert set(terms("lately")) <= set(keys.tolist())

"""The laws of folding, as properties of sessions of all kinds. `make bench-fold` checks them on recorded sessions."""

import orjson
import pytest
from bench.fixtures.coding import KINDS, coding_session, render_all
from hypothesis import given
from hypothesis import strategies as st

import millgate
from millgate.sessions.folding.folder import Folder, is_failed, lists_conflicts
from millgate.sessions.folding.pointer import find_pointers, read_lines, resolve
from millgate.sessions.folding.texts import TextReader
from millgate.text.tokens import estimate_tokens
from millgate.transcript.places import text_at

sessions = st.builds(
    lambda seed, kind: render_all(coding_session(seed), kind, seed=seed),
    st.integers(0, 10_000),
    st.sampled_from(KINDS),
)


@given(sessions)
def test_expanding_gives_the_conversation_back(messages):
    sent, report = millgate.fold(messages)
    assert millgate.expand(sent) == messages
    assert bool(report.folds) == (sent != messages)


@given(sessions, st.data())
def test_what_becomes_of_a_message_depends_on_earlier_ones_alone(messages, data):
    cut = data.draw(st.integers(0, len(messages)))
    whole, _ = millgate.fold(messages)
    part, _ = millgate.fold(messages[:cut])
    assert whole[:cut] == part


@given(sessions, st.data())
def test_a_conversation_that_grows_is_folded_as_if_read_at_once(messages, data):
    folder = Folder()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=4)))
    for cut in [*cuts, len(messages)]:
        folder.extend(orjson.loads(orjson.dumps(messages[:cut])))
    whole, report = millgate.fold(messages)
    assert folder.apply(messages) == whole
    assert folder.report == report


@given(sessions)
def test_a_pointer_names_one_place_and_no_other_pointer(messages):
    sent, report = millgate.fold(messages)
    reader, earlier, seen = TextReader(), [], 0
    for message in sent:
        for part in reader.read(message):
            lines = part.text.split("\n")
            for _, pointer in find_pointers(lines) if part.kind == "result" else ():
                named = [other for name, other in earlier if name == pointer["name"]]
                fitting = [other for other in named if resolve(pointer, read_lines(other))]
                assert len(named) == len(fitting) == 1
                assert not find_pointers(resolve(pointer, read_lines(fitting[0])))
                assert not pointer["name"].startswith("message ")
                seen += 1
            earlier.append((part.name, lines))
    assert seen == len(report.folds)


@given(sessions)
def test_only_long_runs_of_honest_results_are_folded(messages):
    _, report = millgate.fold(messages)
    reader = TextReader()
    parts = [{part.place: part for part in reader.read(message)} for message in messages]
    for fold in report.folds:
        part = parts[fold.at][fold.place]
        assert fold.lines >= 20
        assert part.kind == "result"
        assert part.text.count("\n") >= 40
        assert not is_failed(part)
        assert not lists_conflicts(part.text)


@given(sessions)
def test_no_request_gets_longer(messages):
    sent, report = millgate.fold(messages)
    for before, after in zip(messages, sent, strict=True):  # each request is a beginning of these
        assert len(orjson.dumps(after)) <= len(orjson.dumps(before))
    for fold in report.folds:
        text = text_at(messages[fold.at], fold.place).split("\n")
        lines = "\n".join(text[fold.start : fold.start + fold.lines])
        assert 0 < fold.tokens == estimate_tokens(lines) - estimate_tokens(fold.pointer)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_session_is_folded(kind):
    reports = [millgate.fold(render_all(coding_session(seed), kind))[1] for seed in range(30)]
    assert sum(len(report.folds) for report in reports) > 10

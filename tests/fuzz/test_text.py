"""Fuzzing texts: cutting, counting, folding, quoting, reading and watching take any text there is."""

import json
from contextlib import suppress

import orjson
from tests.fuzz.cases import encoded, fuzz, fuzz_slow, mutate, text, value

from millgate.circles.finder import check
from millgate.errors import InputError
from millgate.guard import RepeatDetector
from millgate.guard.detectors import CountingDetector
from millgate.ingest.chunk import split_text
from millgate.ingest.policy import ChunkPolicy
from millgate.keys import is_well_formed
from millgate.pipeline.stages.strategy import classify_task
from millgate.published.self_reference import compute_overlaps
from millgate.text.bounded_json import has_more_values, loads
from millgate.text.coverage import WindowIndex
from millgate.text.crisis import tells_of_danger
from millgate.text.entropy import information_score
from millgate.text.fence import fence, quote, without_fences
from millgate.text.fingerprint import WindowFingerprint, fingerprint
from millgate.text.hashes import Tokens
from millgate.text.languages import detect_all
from millgate.text.names import entities, names
from millgate.text.nfkc import nfkc
from millgate.text.redact import redact
from millgate.text.table import printable, table
from millgate.text.terms import terms
from millgate.text.tokens import RunningTokens, estimate_tokens
from millgate.text.turns import add_head, part, split_turns
from millgate.text.words import tokens

STEER = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066", "\u200f"]


@fuzz
def test_any_text_can_be_cut(rng):
    whole, policy = text(rng, 40), ChunkPolicy(target=20, maximum=40)
    kind = rng.choice(["markdown", "text", "code"])
    joined = "".join(passage.text for passage in split_text(whole, policy, kind=kind))
    assert sorted("".join(joined.split())) == sorted("".join(whole.split()))


@fuzz
def test_any_text_can_be_quoted_folded_counted_and_redacted(rng):
    some = text(rng)
    assert len(nfkc(some, 1000)) <= 1000
    assert redact(redact(some)) == redact(some)
    assert quote(some).count("<ref") == 0
    assert without_fences(fence(quote(some), b"k")) != fence(quote(some), b"k")
    assert len(RunningTokens(some)) == len(some) + 1
    assert estimate_tokens(some) <= estimate_tokens(some + "x")
    assert is_well_formed(some) == (some == "mg_" + "a" * 43)


@fuzz
def test_any_text_has_words_names_a_language_and_a_task(rng):
    some = text(rng)
    detect_all([some]), entities(some), names(some), classify_task(some), tells_of_danger(some)
    assert all(isinstance(term, int) for term in terms(some, rng.choice(["english", "german", "thai", "japanese"])))  # fmt: skip
    assert 0 <= information_score(some) < 100
    assert Tokens.of([some]).counts[0] == len(tokens(some))


@fuzz
def test_any_text_is_printed_without_steering_the_terminal(rng):
    shown = printable(text(rng))
    assert not [sign for sign in STEER if sign in shown and sign not in "\n\t"]
    assert table([[text(rng), text(rng)], [text(rng), text(rng)]]).count("\n") <= 2


@fuzz_slow
def test_any_text_is_in_its_own_window(rng):
    said = [text(rng) for _ in range(rng.randrange(1, 4))]
    shares = WindowIndex.of(said).coverage(said)
    counts = Tokens.of(said).counts
    assert all(share == (1 if count else 0) for share, count in zip(shares, counts, strict=True))
    assert fingerprint(said[0]).token_count == counts[0]


@fuzz_slow
def test_any_fingerprint_is_read_or_refused(rng):
    good = WindowFingerprint.of(["one two three four five six", text(rng)]).to_json()
    with suppress(InputError):
        payload = mutate(rng, good, 0.01)
        known = WindowFingerprint.from_json(payload if isinstance(payload, dict) else good)
        compute_overlaps(known, ["one two three"])


@fuzz_slow
def test_a_loop_is_seen_however_the_stream_is_cut(rng):
    said = text(rng) + "so it goes on and on. " * 30
    whole, cut = RepeatDetector(), RepeatDetector()
    seen = [stall for char in said if (stall := whole.feed(char))][:1]
    pieces = []
    while len("".join(pieces)) < len(said):
        at = len("".join(pieces))
        pieces.append(said[at : at + rng.randrange(1, 40)])
    found = [stall for piece in pieces if (stall := cut.feed(piece))][:1]
    assert [stall.onset for stall in seen] == [stall.onset for stall in found]


@fuzz_slow
def test_a_count_is_seen_however_the_stream_is_cut(rng):
    lines = [f"{text(rng, 2)} {number}\n" for number in range(rng.randrange(30))]
    said, whole, cut = "".join(lines), CountingDetector(), CountingDetector()
    seen = [stall for char in said if (stall := whole.feed(char))][:1]
    size = rng.randrange(1, 30)
    found = [s for at in range(0, len(said), size) if (s := cut.feed(said[at : at + size]))][:1]
    assert bool(seen) == bool(found)


CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "/a"}}], "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "t", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}  # fmt: skip


@fuzz
def test_any_conversation_is_searched_for_circles(rng):
    check([mutate(rng, rng.choice([CALL, RESULT]), 0.05) for _ in range(rng.randrange(8))])


@fuzz
def test_any_line_of_a_conversation_is_taken_apart(rng):
    said = value(rng)
    metadata = said if isinstance(said, dict) else {"speaker": said, "time": value(rng)}
    line = add_head(text(rng), metadata)
    part(line, metadata)
    assert split_turns("\n".join([line, text(rng)])) is not None


@fuzz
def test_values_in_json_are_counted_as_they_are_parsed(rng):
    data = encoded(rng, {"a": [1, {"b": '\\"[,'}, [[], {}]], "c": text(rng)})
    try:
        found = loads(data)
    except orjson.JSONDecodeError:
        return
    most = len(data)
    assert not has_more_values(data, most)
    assert has_more_values(json.dumps([found, found]).encode(), 1, piece=rng.randrange(16, 40))

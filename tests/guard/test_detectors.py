"""RepeatDetector: exact onset, one verdict per run, no dependence on chunking. EntropyDetector: as published."""

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.guard import EntropyDetector, RepeatDetector, RepeatPolicy, Stall
from millgate.guard.detectors import (
    BLOCK,
    HISTORY,
    common_prefix,
    repeats,
    run_start,
    shortest_unit,
)

PROSE = (
    "A millgate stands at the mouth of a channel and decides how much water may enter. When the river "
    "rises the keeper lowers the boards, and when it falls he lifts them again, so that the fields below "
    "get what they can drink and no more. Nobody thanks him for a quiet year. "
)

TECHNICAL = """The parser accepts that that token may repeat; it had had no say in it. Delimiters such as
---------- and ========== and ,,,,, are fine.

| stage    | in  | out | ms  |
|----------|-----|-----|-----|
| decide   | 10  | 10  | 0.1 |
| retrieve | 10  | 50  | 3.2 |
| penalize | 50  | 50  | 1.1 |
| gate     | 50  | 12  | 0.2 |

```python
for row in rows:
    if row.kind == "a":
        total += row.value
    if row.kind == "b":
        total += row.value
    if row.kind == "c":
        total += row.value
```

{"a": [0, 0, 0, 0], "b": [0, 0, 0, 0], "c": [0, 0, 0, 0], "d": null, "e": null}
That is all. That is all there is to it, and it is all that there ever was.
"""


def feed(detector, text, size=7):
    for start in range(0, len(text), size):
        stall = detector.feed(text[start : start + size])
        if stall:
            return stall
    return None


def noise(count, seed=7):
    rng = random.Random(seed)
    return "".join(rng.choice(string.ascii_lowercase + "     ") for _ in range(count))


@pytest.mark.parametrize(
    "period", [1, 2, 3, 7, 14, 40, 57, 100, 256, 257, 300, 511, 700, 1024, 1500, 4000]
)
def test_a_loop_of_any_period_is_found_with_its_exact_onset(period):
    unit = "zyxwvut"[:period] if period <= 7 else noise(period, seed=period)
    intro = PROSE + "#"
    stall = feed(RepeatDetector(), intro + unit * (900 // period + 5))
    assert stall
    assert (stall.onset, stall.period) == (len(intro), period)
    assert stall.position - stall.onset >= 3 * period


def test_a_loop_that_begins_at_once_begins_at_zero():
    stall = feed(RepeatDetector(), "the model said so. " * 40)
    assert stall
    assert (stall.onset, stall.period) == (0, 19)


def test_no_verdict_falls_before_the_third_copy_is_complete():
    unit = noise(400)
    assert feed(RepeatDetector(), PROSE + "#" + (unit * 3)[:-1]) is None
    assert feed(RepeatDetector(), PROSE + "#" + unit * 3 + "!") is not None


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        TECHNICAL,
        TECHNICAL + PROSE + TECHNICAL,
        "-" * 300,
        "| --- " * 60,
        "0, " * 100,
        "    " * 80,
        "ha" * 40,
        ("A" * 76 + "\n") * 30,
        "│  " * 100,
        "",
        "\x00" * 200,
    ],
    ids=range(12),
)
def test_clean_text_with_natural_repeats_does_not_stall(text):
    assert feed(RepeatDetector(), text) is None


@pytest.mark.parametrize(
    "loop", ["fo", "do", "therefore, ", "I am sorry. ", "🌟", "\ud83d", "\x00a"]
)
def test_the_repeat_detector_sees_every_example_loop(loop):
    stall = feed(RepeatDetector(), PROSE + loop * 600)
    assert stall
    assert stall.period == len(loop)


def test_suspicion_holds_the_tail_and_lets_it_go_when_the_repetition_breaks():
    detector = RepeatDetector()
    unit = noise(100)
    detector.feed(PROSE + "#" + unit + unit[:60])
    assert detector.hold is None
    detector.feed(unit[60:] + unit[:50])
    start = len(PROSE) + 1
    assert detector.hold is not None
    assert start + 205 <= detector.hold <= start + 250
    assert detector.run > 200
    detector.feed("something else entirely, and on it goes")
    assert detector.hold is None
    assert detector.run == 0


def test_a_run_is_told_once_and_the_next_run_again():
    detector = RepeatDetector()
    told = [detector.feed("tell me once. ") for _ in range(60)]
    told += [detector.feed(PROSE)]
    told += [detector.feed("and tell me again. ") for _ in range(60)]
    assert [stall.period for stall in told if stall] == [14, 19]


def test_a_stall_may_be_asked_for_again():
    detector = RepeatDetector()
    text = "over and over. " * 40
    first = feed(detector, text, size=1)
    assert first
    detector.rearm(30)
    second = feed(detector, text[first.position :], size=1)
    assert second
    assert second.position - first.position == 30


def test_reset_forgets_everything():
    detector = RepeatDetector()
    feed(detector, "again and again. " * 30)
    detector.reset()
    assert detector.hold is None
    assert feed(detector, PROSE) is None


def test_memory_stays_bounded_on_an_endless_stream():
    detector = RepeatDetector()
    for seed in range(40):
        detector.feed(noise(20_000, seed=seed))
        detector.feed("loop " * 2_000)
        assert len(detector._text) <= 3 * HISTORY + 20_000


class Patient(RepeatPolicy):
    def stall(self, period, kind):
        return max(400, super().stall(period, kind))


def test_a_policy_of_ones_own_may_wait_longer():
    loop = "the same words again, " * 40
    early = feed(RepeatDetector(), loop, size=1)
    late = feed(RepeatDetector(Patient()), loop, size=1)
    assert early
    assert late
    assert (early.position, late.position) == (180, 400)


# Any text made of a few repeated pieces: loops, near loops, fillers and breaks in all mixtures.
pieces = st.lists(
    st.tuples(st.text(alphabet="ab .\n0é🌟", min_size=1, max_size=60), st.integers(1, 40)),
    min_size=1,
    max_size=6,
).map(lambda parts: "".join(piece * count for piece, count in parts))


@given(pieces, st.lists(st.integers(0, 90), min_size=1, max_size=50))
def test_the_verdict_does_not_depend_on_chunking(text, sizes):
    def stalls(chunks):
        detector = RepeatDetector()
        return next((stall for chunk in chunks if (stall := detector.feed(chunk))), None)

    chunks, start = [], 0
    while start < len(text):
        size = sizes[len(chunks) % len(sizes)] or 1
        chunks += [text[start : start + size], ""]
        start += size
    assert stalls(chunks) == stalls([text]) == stalls(list(text))


@given(pieces)
def test_a_stall_names_a_true_and_maximal_run(text):
    text = re.sub(" +", " ", text)  # runs of blanks count as one
    stall = RepeatDetector().feed(text)
    if stall is None:
        return
    run = text[stall.onset : stall.position]
    assert run[: -stall.period] == run[stall.period :]
    before = stall.onset - 1
    assert before < 0 or text[before] != text[before + stall.period]
    assert stall.position - stall.onset >= 3 * stall.period


def test_only_the_repeat_detector_sees_a_loop_of_rich_words():
    text = "therefore, " * 60
    detector = EntropyDetector()
    detector.feed("therefore, ")
    assert 2.5 < detector.bits < 3.2
    assert feed(EntropyDetector(), text) is None
    assert feed(RepeatDetector(), text) is not None


def test_the_published_detector_does_not_depend_on_chunking():
    text = PROSE + "fo" * 50
    whole = EntropyDetector().feed(text)
    assert whole == feed(EntropyDetector(), text, size=1)
    assert isinstance(whole, Stall)


def test_the_published_detector_rests_after_a_stall_and_forgets_on_reset():
    detector = EntropyDetector()
    told = [detector.feed("a") for _ in range(200)]
    positions = [stall.position for stall in told if stall]
    assert positions == [16, 80, 144]
    detector.reset()
    assert detector.bits == 0
    assert detector.feed("abcdefghijklmnop") is None


@pytest.mark.parametrize("knobs", [{"window": 1}, {"span": 0}, {"warm_up": 0}])
def test_impossible_knobs_are_refused(knobs):
    with pytest.raises(InputError):
        EntropyDetector(**knobs)


CHORUS = "Oh, we are the ones who stay awake until the river is asleep again\n"


@pytest.mark.parametrize(
    "text",
    [
        "| Feature" + " " * 680 + "|\n|" + "-" * 680 + "|\n",
        CHORUS * 4 + "\n",
        "Oh, we are the ones who stay awake until the river sleeps,\nuntil the morning comes\nand takes us home\n"
        * 4,
        "Sprint for 30 seconds, walk for 60 seconds.\n" * 6,
        "grid = [\n" + ("    [" + ", ".join("0" * 20) + "],\n") * 20 + "]\n",
        "tiles = {\n" + ("    " + "0xFF, " * 8 + "\n") * 16 + "}\n",
        ("0 " * 19 + "0\n") * 20,
        "Notes:\n" + ("_" * 80 + "\n") * 20 + "Signature: ____\n",
        ("🟩" * 12 + "\n") * 12,
        ("||0️⃣||" * 8 + "\n") * 8,
        "Never gonna stop, never gonna stop\n(Let it flow)\nWe are " * 4 + "\n",
        'dna = "ATGCAT' + "GCTA" * 78 + '"\n',
        "arn:aws:acm:certificate/" + "1234567890" * 77 + "\n",
        'key = "' + "0123456789abcdefghijklmnopqrstuvwxyz" * 5 + '"\n',
        "```\n((=<`#9]~6ZY3" + "%o4Uqp0/QsqpM&+Ij\"'E" * 40 + "\n```\n",
        "|:G2 E2 D2:|G2 E2 D2:|G2 E2 D2:|D2 G2 A2:|\n" * 4,
    ],
    ids=[
        "cells",
        "chorus",
        "stanza",
        "drill",
        "matrix",
        "bytes",
        "map",
        "form",
        "lawn",
        "board",
        "refrain",
        "dna",
        "serial",
        "placeholder",
        "esoteric",
        "music",
    ],
)
def test_what_good_answers_repeat_does_not_stall(text):
    assert feed(RepeatDetector(), PROSE + text + PROSE) is None


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        ("⠇", 320),
        ("⠑⠁⠇⠑⠊⠇⠑⠊⠇", 320),
        ("\n```", 320),
        ("( ) ", 320),
        ("\n     1  2  3  4  5  6  7  8  9\n     -----------", 460),
        (CHORUS, 320),
        ("CGAT", 390),
        ("There is no answer for you in the sea, only a lie.\n", 310),
        ("    [0, 0, 0, 0],\n", 490),
        ("    [0, 0, 0, 0, 0, 0, 0, 0, 0],\n", 740),
        ("I am alone.\n\nI am alone.\n\nI was alone for a while.\n\n", 190),
    ],
)
def test_loops_without_words_stall(unit, most):
    stall = feed(RepeatDetector(), PROSE + unit * 400)
    assert stall is not None
    assert stall.position - stall.onset <= most


# Comparisons of slices say what comparing character by character says.
TEXTS = st.one_of(
    st.text("ab", max_size=12),
    st.integers(0, 6 * BLOCK).map(lambda size: "a" * size),
    st.tuples(st.integers(0, 6 * BLOCK), st.text("ab", max_size=4)).map(
        lambda t: "a" * t[0] + t[1]
    ),
)


@given(TEXTS, TEXTS)
def test_the_common_prefix_is_what_both_begin_with(left, right):
    size = common_prefix(left, right)
    assert left[:size] == right[:size]
    assert size == min(len(left), len(right)) or left[size] != right[size]


@given(st.text("ab", min_size=1, max_size=5), st.integers(1, 4))
def test_the_shortest_unit_makes_up_the_whole(unit, copies):
    whole = unit * copies
    size = shortest_unit(whole)
    assert size <= len(unit)
    assert whole[:size] * (len(whole) // size) == whole


@given(st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=4), st.integers(2, 90))
def test_a_run_begins_where_the_text_first_repeats(before, unit, copies):
    text, period = before + unit * copies, len(unit)
    assert repeats(text, len(text), period, period * (copies - 1))
    assert not repeats(text, len(text), period, len(text) - period + 1)
    start = run_start(text, len(text), period, 0)
    plain = next(i for i in range(len(text)) if text[i:-period] == text[i + period :])
    assert start == plain

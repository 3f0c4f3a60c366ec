"""Admission: a token is believed only with its own slice, its own secret, in its own time."""

import hmac
import json
from dataclasses import asdict, replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.knowledge.admissibility import admit, is_admissible, load, sign, verify
from millgate.knowledge.slices import SlicePolicy, SliceTurn, slice_around
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Secret

KEY = b"k" * 32
SECRETS = [Secret(KEY)]
TURNS = [
    SliceTurn("a", phase="planning"),
    SliceTurn("b", "a", "synthesis", 0.5),
    SliceTurn("c", "b"),
    SliceTurn("d", "a", "debugging"),
]
SIGNED = sign(slice_around(TURNS, "a", SlicePolicy(max_nodes=3)), KEY)


def test_the_token_is_the_published_one():
    fields = (SIGNED.id, "a", "default", SIGNED.params_hash, SIGNED.snapshot_hash, "slice", "1")
    digest = hmac.new(KEY, "|".join(fields).encode(), sha256).digest()
    assert SIGNED.token == digest[:16].hex()
    assert verify(SIGNED, SECRETS, now=0)


def forged() -> list[tuple[str, object]]:
    token = SIGNED.token
    assert token
    wide = slice_around(TURNS, "a")
    other = sign(slice_around(TURNS, "b"), KEY)
    return [
        ("missing", replace(SIGNED, token=None)),
        ("empty", replace(SIGNED, token="")),
        ("zeros", replace(SIGNED, token="0" * 32)),
        ("truncated", replace(SIGNED, token=token[:-1])),
        ("prefix of half", replace(SIGNED, token=token[:16])),
        ("extended", replace(SIGNED, token=token + "0")),
        (
            "upper case",
            replace(SIGNED, token=token.upper() if token.upper() != token else "A" * 32),
        ),
        ("reversed", replace(SIGNED, token=token[::-1])),
        ("not ASCII", replace(SIGNED, token="é" * 32)),
        ("surrogate", replace(SIGNED, token="\ud800" * 32)),
        ("of another slice", replace(SIGNED, token=other.token)),
        ("signed by another", sign(replace(SIGNED, token=None), b"x" * 32)),
        ("turns re-ordered", replace(SIGNED, turns=SIGNED.turns[::-1])),
        ("a turn added", replace(SIGNED, turns=wide.turns)),
        ("widened, hashes too", replace(wide, token=token)),
        ("a turn left out", replace(SIGNED, turns=SIGNED.turns[:-1])),
        (
            "a turn edited",
            replace(SIGNED, turns=(replace(TURNS[0], digest="?"), *SIGNED.turns[1:])),
        ),
        ("an edge dropped", replace(SIGNED, edges=())),
        ("another anchor", replace(SIGNED, anchor="b")),
        ("another policy", replace(SIGNED, policy_id="lax")),
        ("other numbers", replace(SIGNED, params_hash=SlicePolicy(radius=99).params_hash)),
        ("another schema", replace(SIGNED, schema="slices")),
        ("another version", replace(SIGNED, version="2")),
    ]


@pytest.mark.parametrize("slice", [s for _, s in forged()], ids=[name for name, _ in forged()])
def test_a_forgery_is_refused(slice):
    assert not verify(slice, SECRETS, now=0)


def test_fields_moved_across_their_borders_are_refused():
    policy = SlicePolicy(id="x/y")
    slice = sign(slice_around(TURNS, "a", policy), KEY)
    assert not verify(replace(slice, anchor="a|x", policy_id="y"), SECRETS, now=0)


@given(st.text(max_size=40))
def test_no_guess_is_believed(guess):
    assert guess == SIGNED.token or not verify(replace(SIGNED, token=guess), SECRETS, now=0)


@given(st.integers(0, 31), st.integers(1, 15))
def test_no_changed_digit_is_believed(place, step):
    assert SIGNED.token
    digit = format((int(SIGNED.token[place], 16) + step) % 16, "x")
    token = SIGNED.token[:place] + digit + SIGNED.token[place + 1 :]
    assert not verify(replace(SIGNED, token=token), SECRETS, now=0)


def test_after_a_rotation_old_tokens_verify_until_they_expire():
    store = TemporaryStore()
    slice = slice_around(TURNS, "a")
    old = sign(slice, store.secret("t"))
    store.rotate("t", expires=100.0)
    new = sign(slice, store.secret("t"))
    assert old.token != new.token
    secrets = store.secrets("t")
    assert verify(old, secrets, now=99.9)
    assert not verify(old, secrets, now=100.0)
    assert verify(new, secrets, now=1e12)
    store.rotate("t", expires=50.0)
    assert verify(old, store.secrets("t"), now=49)
    assert not verify(new, store.secrets("t"), now=50)
    assert not verify(new, TemporaryStore().secrets("t"), now=0)


def test_without_a_secret_nothing_is_signed_or_believed():
    with pytest.raises(InputError, match="empty secret"):
        sign(SIGNED, b"")
    assert not verify(SIGNED, [], now=0)
    empty = replace(SIGNED, token=hmac.new(b"", SIGNED.message.encode(), sha256).hexdigest()[:32])
    assert not verify(empty, [Secret(b"")], now=0)


def test_what_does_not_match_its_hashes_is_not_signed():
    with pytest.raises(InputError, match="does not match"):
        sign(replace(SIGNED, turns=()), KEY)


CHUNKS = [Chunk("a", "hello"), Chunk("b", "world", metadata={"parent": "a"}), Chunk("z", "else")]


def test_only_chunks_of_the_slice_are_admitted():
    slice = sign(slice_around([SliceTurn.from_chunk(c) for c in CHUNKS], "a"), KEY)
    edited = replace(CHUNKS[1], text="other")
    admitted = admit([CHUNKS[0], edited, CHUNKS[2]], slice)
    assert [c.id for c in admitted] == ["a"]
    assert is_admissible(admitted[0], slice, SECRETS, now=0)
    assert not is_admissible(CHUNKS[0], slice, SECRETS, now=0)
    assert not is_admissible(replace(CHUNKS[2], admission=slice.token), slice, SECRETS, now=0)
    assert not is_admissible(replace(admitted[0], text="x"), slice, SECRETS, now=0)
    assert not is_admissible(replace(admitted[0], admission="0" * 32), slice, SECRETS, now=0)
    assert not is_admissible(admitted[0], slice, [Secret(b"other")], now=0)
    with pytest.raises(InputError, match="no token"):
        admit(CHUNKS, replace(slice, token=None))


def test_a_slice_survives_json():
    again = load(json.loads(json.dumps(asdict(SIGNED))))
    assert again == SIGNED
    assert verify(again, SECRETS, now=0)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {**asdict(SIGNED), "turns": 3},
        {**asdict(SIGNED), "turns": [{"id": "a", "rank": 1}]},
        {**asdict(SIGNED), "token": 7},
        {**asdict(SIGNED), "edges": [["a"]]},
        {**asdict(SIGNED), "turns": [{"id": "a", "salience": "much"}]},
        {**asdict(SIGNED), "anchor": None},
    ],
)
def test_what_is_no_slice_says_so(data):
    with pytest.raises(InputError):
        load(data)


@pytest.mark.parametrize("change", [{"anchor": "\ud800"}, {"turns": [{"id": "a", "phase": 10**30}]}, {"turns": [{"id": 5}]}, {"turns": [{"id": "a", "parent": "\ud800"}]}])  # fmt: skip
def test_a_slice_that_no_hash_can_be_made_of_is_refused(change):
    with pytest.raises(InputError):
        load(json.loads(json.dumps(asdict(SIGNED))) | change)

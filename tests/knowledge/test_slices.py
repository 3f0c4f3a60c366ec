"""The kernel: the same conversation gives the same slice, whatever order or process it comes in."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from millgate.errors import ConfigError, InputError, NotFound
from millgate.knowledge.slices import PHASES, SlicePolicy, SliceTurn, slice_around
from millgate.types import Chunk


def conversation(seed: int) -> list[SliceTurn]:
    """A random conversation graph, with cycles, dangling parents and self-parents among its turns."""
    dice = random.Random(seed)
    size = dice.randint(1, 60)
    return [
        SliceTurn(
            id=f"t{i}",
            parent=dice.choice(["", "gone", *(f"t{dice.randrange(size)}" for _ in range(8))]),
            phase=dice.choice(sorted(PHASES)),
            salience=dice.choice([0.0, 0.5, 1.0, dice.random()]),
            digest=str(i),
        )
        for i in range(size)
    ]


def hashes(seeds: range, *, shuffle: bool) -> list[tuple[str, str, str]]:
    made = []
    for seed in seeds:
        turns = conversation(seed)
        if shuffle:
            random.Random(-seed - 1).shuffle(turns)
        slice = slice_around(turns, "t0", SlicePolicy(max_nodes=1 + seed % 40, radius=seed % 6))
        made.append((slice.id, slice.params_hash, slice.snapshot_hash))
    return made


@pytest.mark.slow
def test_shuffled_input_gives_the_same_slices_over_a_thousand_graphs():
    seeds = range(1_000)
    assert hashes(seeds, shuffle=False) == hashes(seeds, shuffle=True)


@pytest.mark.slow
def test_other_processes_give_the_same_slices():
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_slices import hashes\n"
        "print(hashes(range(60), shuffle=True))"
    )
    for seed in ("0", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True
        )
        assert run.stdout.strip() == repr(hashes(range(60), shuffle=False))


def test_known_input_gives_known_hashes():
    turns = [SliceTurn("a", phase="planning", digest="x"), SliceTurn("b", "a", "synthesis", 1, "y")]
    slice = slice_around(turns, "a")
    assert slice.id == "a13627cfc5fb62df5623ccb91b1bb405"
    assert slice.params_hash == ("0f9096e25fa60f7fd00baab6cb6596e9b040ffafad5b1dd1591ce1e1e1232361")
    assert slice.snapshot_hash == (
        "74922394349b4738898eec1f0f10c70fc35ffa574e8251171a622f8e18e7c2b5"
    )


def ids(turns: list[SliceTurn], anchor: str, **knobs) -> list[str]:
    return [turn.id for turn in slice_around(turns, anchor, SlicePolicy(**knobs)).turns]


def test_the_slice_goes_best_first():
    turns = [
        SliceTurn("root", phase="exploration"),
        SliceTurn("plan", "root", "planning", 0.0),
        SliceTurn("bug", "root", "debugging", 1.0),  # .5 + .3 < .9
        SliceTurn("sum", "plan", "synthesis", 0.0),  # 1.0 · .9² = .81 > .8 · .9
    ]
    assert ids(turns, "root") == ["root", "plan", "sum", "bug"]


def test_ties_are_broken_by_id():
    turns = [SliceTurn("r"), SliceTurn("c", "r"), SliceTurn("b", "r"), SliceTurn("a", "r")]
    assert ids(turns, "r") == ["r", "a", "b", "c"]


@pytest.mark.parametrize(
    ("knobs", "size"),
    [({}, 11), ({"radius": 3}, 4), ({"radius": 0}, 1), ({"max_nodes": 2}, 2)],
)
def test_radius_and_size_bound_a_slice(knobs, size):
    chain = [SliceTurn(f"{i:03}", f"{i - 1:03}" if i else "") for i in range(300)]
    assert len(ids(chain, "000", **knobs)) == size


def test_a_slice_holds_at_most_256_turns():
    star = [SliceTurn("hub"), *(SliceTurn(f"{i:04}", "hub") for i in range(2_000))]
    assert len(ids(star, "hub")) == 256


def test_only_the_strongest_siblings_are_followed():
    turns = [
        SliceTurn("me", "gone"),
        *(SliceTurn(f"s{i}", "gone", salience=i / 10) for i in range(9)),
    ]
    assert ids(turns, "me", radius=1) == ["me", "s8", "s7", "s6", "s5", "s4"]
    assert ids(turns, "me", radius=1, siblings=0) == ["me"]


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "debugging"},
        {"salience": 0.25},
        {"digest": "other"},
        {"parent": "b"},
    ],
)
def test_every_part_of_a_turn_reaches_the_snapshot(change):
    turns = [SliceTurn("a"), SliceTurn("b", "a")]
    other = [SliceTurn("a"), replace(turns[1], **change)]
    slices = [slice_around(t, "b", SlicePolicy(radius=0)) for t in (turns, other)]
    assert slices[0].snapshot_hash != slices[1].snapshot_hash


def test_a_policy_is_known_by_its_numbers_not_its_name():
    one, two = SlicePolicy(id="one"), SlicePolicy(id="two")
    assert one.params_hash == two.params_hash
    assert one.params_hash != SlicePolicy(decay=0.8).params_hash
    assert (
        slice_around([SliceTurn("a")], "a", one).id != slice_around([SliceTurn("a")], "a", two).id
    )


@pytest.mark.parametrize("id", ["", "a|b", "a\nb", "\ud800"])
def test_an_id_that_could_confuse_a_token_is_refused(id):
    with pytest.raises(InputError, match="turn id"):
        SliceTurn(id)


@pytest.mark.parametrize("salience", [-0.1, 1.1, float("nan")])
def test_salience_out_of_range_is_refused(salience):
    with pytest.raises(InputError, match="salience"):
        SliceTurn("a", salience=salience)


def test_what_cannot_be_cut_says_why():
    with pytest.raises(NotFound, match="'x'"):
        slice_around([SliceTurn("a")], "x")
    with pytest.raises(InputError, match="two different turns"):
        slice_around([SliceTurn("a"), SliceTurn("a", salience=1)], "a")
    with pytest.raises(InputError, match="phase 'dreaming'"):
        slice_around([SliceTurn("a", phase="dreaming")], "a")
    with pytest.raises(ConfigError, match="at least one phase"):
        SlicePolicy(phases={})
    with pytest.raises(ConfigError, match="pattern"):
        SlicePolicy(id="a|b")


def test_a_chunk_tells_its_turn():
    chunk = Chunk(
        "t1", "hello", source="turn", metadata={"parent": "t0", "phase": "planning", "salience": 1}
    )
    turn = SliceTurn.from_chunk(chunk)
    assert (turn.id, turn.parent, turn.phase, turn.salience) == ("t1", "t0", "planning", 1.0)
    assert turn.digest != SliceTurn.from_chunk(replace(chunk, text="hullo")).digest
    with pytest.raises(InputError, match="must be a number"):
        SliceTurn.from_chunk(replace(chunk, metadata={"salience": "high"}))

"""The plot of a stream: bounded samples, curves as bars, stalls where they are."""

import pytest

from millgate.errors import InputError
from millgate.guard import plot
from millgate.guard.plot import BARS, Profile, Sample, target, terminal

PROSE = "A river, a gate, three fields and one keeper who never slept. "
UNIT = "The gate is open and the water runs over the lower field. "


def profile_of(text, **options):
    profile = Profile(**options)
    profile.feed(text)
    return profile


def test_a_sample_is_taken_at_every_step():
    profile = profile_of("abcdefgh" * 3, every=8)
    assert [sample.position for sample in profile.samples] == [8, 16, 24]
    assert profile.samples[0].bits == pytest.approx(3.0)


def test_an_endless_stream_keeps_a_bounded_number_of_samples(monkeypatch):
    monkeypatch.setattr(plot, "SAMPLES", 4)
    profile = profile_of("ab" * 2, every=1)
    assert [sample.position for sample in profile.samples] == [1, 2, 3, 4]
    profile.feed("a")
    assert [sample.position for sample in profile.samples] == [2, 4]
    profile.feed("babab")
    assert [sample.position for sample in profile.samples] == [2, 4, 6, 8, 10][1::2]


def test_a_loop_raises_the_lower_curve_and_is_marked_from_its_onset_on():
    profile = profile_of(PROSE + UNIT * 12)
    assert profile.stalls
    entropy, repetition, stalls = terminal(profile, width=40).splitlines()
    assert entropy.startswith("entropy    ")
    assert set(entropy[11:]) <= set(BARS)
    assert repetition[11] == " "
    assert repetition.rstrip()[-1] in BARS[4:]
    end = profile.samples[-1].position
    assert stalls.index("<") - 11 == profile.stalls[0].onset * 40 // end
    assert "x" in stalls


def test_the_stalls_of_an_endless_loop_are_bounded_too(monkeypatch):
    monkeypatch.setattr(plot, "SAMPLES", 1)
    profile = profile_of(PROSE + UNIT * 12 + PROSE[::-1] * 2 + UNIT[::-1] * 12)
    assert len(profile.stalls) == 1


def test_clean_prose_marks_nothing():
    assert terminal(profile_of(PROSE)).splitlines()[2] == "stalls"
    assert terminal(Profile()) == "entropy\nrepetition\nstalls\n"


def test_a_column_shows_its_least_entropy_and_longest_repetition():
    samples = [Sample(1, 3.0, 0), Sample(2, 1.0, 5), Sample(3, 2.0, 9), Sample(4, 4.0, 2)]
    assert plot._cell(samples, 0, 2) == (1.0, 5)
    assert plot._cell(samples, 1, 2) == (2.0, 9)
    assert plot._cell(samples[:1], 5, 8) == (3.0, 0)
    assert plot._cell([], 0, 2) == (0.0, 0)


def test_the_curve_of_repetition_is_logarithmic_and_ends_at_the_top():
    assert plot._height(0) == 0
    assert plot._height(127) == pytest.approx(0.5)
    assert plot._height(1 << 20) == 1
    assert (plot._bar(0), plot._bar(0.5), plot._bar(1), plot._bar(2)) == (" ", "▄", "█", "█")


def test_a_picture_is_written_to_a_png_and_to_nothing_else(tmp_path):
    path = tmp_path / "stream.PNG"
    assert target(str(path))(profile_of(PROSE + UNIT * 12)) == ""
    assert path.read_bytes().startswith(b"\x89PNG")
    assert target("terminal") is terminal
    with pytest.raises(InputError, match="cannot plot to stream"):
        target("stream.svg")
    with pytest.raises(InputError, match="cannot write"):
        target(str(tmp_path / "none" / "x.png"))(Profile())

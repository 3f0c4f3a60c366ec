"""The profile of a stream: a bounded number of samples of its entropy and its repetition."""

import pytest

from millgate.guard.profile import SAMPLES, Profile

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


def test_an_endless_stream_keeps_a_bounded_number_of_samples():
    profile = Profile(every=1)
    for _ in range(3):
        profile.feed("ab" * SAMPLES)
    places = [sample.position for sample in profile.samples]
    assert len(places) <= SAMPLES
    assert places == sorted(places)
    assert places[-1] > 5 * SAMPLES


def test_a_loop_raises_the_curve_of_repetition():
    runs = [sample.run for sample in profile_of(PROSE + UNIT * 12).samples]
    assert runs[0] == 0
    assert runs[-1] > 9 * len(UNIT)

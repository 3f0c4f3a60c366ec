"""Self-reference: the design's own examples, and a plain re-implementation beside ours on random inputs."""

import random
from collections import Counter
from hashlib import sha256

import pytest
from tests.published.cases import random_cases

from millgate.published.self_reference import (
    ContextGatewayRequest,
    WindowFingerprint,
    adjust_score,
    build_window_fingerprint,
    classify_overlap,
    compute_overlaps,
    compute_penalty,
    expansion_depth,
    is_mostly_known,
    minhash128,
    simhash64,
)
from millgate.text.fingerprint import fingerprints

FULL = 2**64 - 1
WORDS = [
    "refunds",
    "are",
    "paid",
    "to",
    "the",
    "card",
    "within",
    "fourteen",
    "days",
    "parcels",
    "leave",
    "by",
    "rail",
    "on",
    "monday",
]


# Plain Python, for lower-case words of the alphabet alone; docs/fingerprint.md has it for every text.


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & FULL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & FULL
    return x ^ (x >> 31)


def word_hash(word):
    total = (len(word) * 0x9E3779B97F4A7C15) & FULL
    for at in range(0, len(word), 8):
        total = mix(total ^ int.from_bytes(word[at : at + 8].encode(), "little"))
    return total >> 32


HASHES = {word: word_hash(word) for word in WORDS}
PLACES = (0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1, 0x510E527FADE682D1)  # fmt: skip
PERMUTATIONS = [
    (mix(k * 0x9E3779B97F4A7C15 & FULL) | 1, mix(k * 0xD1B54A32D192ED03 & FULL))
    for k in range(1, 129)
]


def plain_fingerprint(text):
    hashes = [HASHES[word] for word in text.split()]
    bits = Counter(bit for h in hashes for bit in range(64) if mix(h) >> bit & 1)
    sim = sum(1 << bit for bit in range(64) if 2 * bits[bit] > len(hashes))
    size = 5 if len(hashes) >= 20 else min(3, max(len(hashes), 1))
    runs = [hashes[at : at + size] for at in range(len(hashes) - size + 1)]
    mixed = [mix(sum(p * h for p, h in zip(PLACES, run, strict=False)) & FULL) for run in runs]
    least = [min(((h * a + b) & FULL for h in mixed), default=FULL) >> 32 for a, b in PERMUTATIONS]
    return sha256(text.encode()).hexdigest(), sim, tuple(least), len(hashes)


def fingerprint_payload(blocks):
    asked = ContextGatewayRequest(query="", current_window_blocks=blocks)
    return build_window_fingerprint(asked).model_dump(exclude_none=True)


def random_text(rng, most=9):
    return " ".join(rng.choices(WORDS, k=rng.randrange(most)))


def test_the_examples():
    refund = "Refunds are paid within 14 days to the card."
    payload = fingerprint_payload([refund, "Parcels leave by rail."])
    assert payload.keys() == {
        "version", "global_sha256", "global_simhash64", "global_minhash128", "spans"
    }  # fmt: skip
    assert [span["span_id"] for span in payload["spans"]] == ["0", "1"]
    assert payload["spans"][0]["simhash64"] == simhash64(refund)
    assert payload["spans"][0]["minhash128"] == minhash128(refund)
    assert compute_penalty(1.0) == 0.9
    assert compute_penalty(0.5) == pytest.approx(0.9 * 0.5**1.35)
    assert compute_penalty(1.0, weight=0.6) == 0.6
    assert adjust_score(0.8, 1.0) == 0.0
    assert adjust_score(0.8, 0.0) == 0.8
    window = WindowFingerprint.from_json(payload)
    assert compute_overlaps(window, [refund]).tolist() == [1.0]
    assert compute_overlaps(window, [f"{refund} And more."])[0] < 1.0


@random_cases
def test_fingerprints_are_those_of_plain_python(cases):
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(cases)]
    texts += [random_text(rng, 60) for _ in range(50)]
    plain = {text: plain_fingerprint(text) for text in set(texts)}
    for text, ours in zip(texts, fingerprints(texts), strict=True):
        made = (ours.sha256, ours.simhash64, ours.minhash128, ours.token_count)
        assert made == plain[text]


def plain_overlap(text, spans):
    """The largest share of equal MinHashes; a near SimHash lifts it, an equal sha256 makes it 1."""
    own = plain_fingerprint(text)
    best = 0.0
    for other in spans:
        if not own[3] or not other[3]:
            continue
        share = sum(a == b for a, b in zip(own[2], other[2], strict=True)) / 128
        if (own[1] ^ other[1]).bit_count() <= 3:
            share = max(share, 0.90)
        best = max(best, 1.0 if own[0] == other[0] else share)
    return best


@random_cases
def test_overlaps_are_those_of_plain_python(cases):
    rng = random.Random(2)
    seen = Counter()
    for _ in range(cases // 100):
        blocks = [random_text(rng) or "card" for _ in range(rng.randrange(2, 5))]
        window = WindowFingerprint.from_json(fingerprint_payload(blocks))
        texts = [random_text(rng) for _ in range(95)]
        texts += [*(rng.choice(blocks) + rng.choice(["", " days"]) for _ in range(5))]
        spans = [plain_fingerprint(text) for text in ("\n".join(blocks), *blocks)]
        # the digest of the whole is of its words as one line
        spans[0] = (sha256(" ".join(" ".join(blocks).split()).encode()).hexdigest(), *spans[0][1:])
        for text, ours in zip(texts, compute_overlaps(window, texts), strict=True):
            assert ours == plain_overlap(text, spans)
            seen[classify_overlap(ours)] += 1
    assert seen.keys() >= {"novel", "self_referential", "near_duplicate"}


@random_cases
def test_the_penalty_is_the_plain_formula(cases):
    rng = random.Random(3)
    for _ in range(cases):
        score, overlap = rng.random(), rng.choice([0.0, 1.0, rng.random()])
        weight = rng.choice([0.9, 0.6])
        plain = 0.0 if overlap == 1 else max(0.0, score * (1 - weight * overlap**1.35))
        assert adjust_score(score, overlap, weight=weight) == pytest.approx(plain)
        classes = [("near_duplicate", 0.85), ("self_referential", 0.60), ("partial", 0.30)]
        named = next((name for name, least in classes if overlap >= least), "novel")
        assert classify_overlap(overlap) == named


@random_cases
def test_a_second_pass_is_asked_for_as_the_plain_rule_says(cases):
    rng = random.Random(4)
    for _ in range(cases):
        overlaps = [rng.random() ** 0.3 for _ in range(rng.randrange(8))]
        k = rng.randrange(1, 7)
        novel = len([r for r in overlaps if r < 0.30])
        plain = novel < 2 if k > 1 else novel < 1
        plain = plain or not [r for r in overlaps[:k] if r < 0.60]
        assert is_mostly_known(novel, overlaps[:k], k) is plain
        assert expansion_depth(k) == (12 if k < 4 else 3 * k)


def words(start, end):
    return " ".join(f"word{n}" for n in range(start, end))


def test_a_copy_a_near_copy_and_a_stranger():
    window = WindowFingerprint.of([words(0, 190), words(190, 380), "a b c"], sketch=False)
    edited = words(0, 190).replace("word50 ", "changed ")
    equal, near, other, empty, short = compute_overlaps(
        window, [words(190, 380).upper(), edited, words(900, 1090), "", "a b c"]
    )
    assert (equal, other, empty, short) == (1.0, 0.0, 0.0, 1.0)
    assert 0.90 <= near < 1


def test_hamming_nought_lifts_nothing_that_differs():
    window = WindowFingerprint.of([words(0, 60)], sketch=False)
    edited = words(0, 60).replace("word30 ", "changed ")
    assert compute_overlaps(window, [edited], hamming=0)[0] < 0.9

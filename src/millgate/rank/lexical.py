"""Lexical score: BM25F over fields, with neighbors' counts in conversations.

    lex(d) = Σ_t w_t · idf_t · (k1 + 1)·F / (F + k1)        F = f = count(d, t) / (1 − b + b·len/mean)

A title's counts weigh more. In a conversation a line is understood through the lines around it, so
their counts are added *before* saturation: F = f + .5 f(d±1) + .3 f(d±2) + 3 [in speaker] + 1 [in date];
adding neighbors' finished scores instead costs .02 of evidence. idf comes from the chunks' own terms.
Two bonuses are counted beside it: phrases, and heads, since a title's counts drown in the saturation of the body's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from millgate.protocols import Postings, Snapshot, TermPositions, TokenStreams
from millgate.rank.fields import TITLE, pack, presence_weights, table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Number = TypeVar("Number", bound=np.integer)


# The usual constants of BM25, and the defaults of Lucene: Robertson and Zaragoza, "The Probabilistic Relevance
# Framework", 2009, name 1.2 to 2 and .5 to .8 as ranges that work.
K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Weighing:
    """The constants of the lexical score. Without any, plain BM25 over titles and texts."""

    k1: float = K1
    b: float = B
    title: float = 1.0
    speaker: float = 0.0
    date: float = 0.0
    near: tuple[float, ...] = ()


def idf(count: int, frequencies: npt.ArrayLike) -> Floats:
    """The idf of some terms, ln(1 + (N − df + ½) / (df + ½)): never negative.

    A term that more chunks hold than were counted is as common as can be.
    """
    df = np.asarray(frequencies)
    return np.asarray(np.log1p((np.maximum(count - df, 0) + 0.5) / (df + 0.5)), np.float64)


@overload
def saturate(counts: float, damping: float, weight: float) -> float: ...
@overload
def saturate(counts: Floats, damping: Floats | float, weight: Floats | float) -> Floats: ...
def saturate(
    counts: Floats | float, damping: Floats | float, weight: Floats | float
) -> Floats | float:
    """What a term adds that stands `counts` times: weight · n / (n + damping), where damping is k1 · length norm.

    For BM25 the weight is w_t · idf_t · (k1 + 1).
    """
    return weight * counts / (counts + damping)


def lexical(
    view: Snapshot, terms: Keys, hits: Postings, term_weight: Floats, by: Weighing
) -> Floats:
    """The lexical score of every chunk, 0 for those without any of the terms; a term's weight is w_t · idf_t."""
    scale = term_weight * (by.k1 + 1)
    if view.conversational and by.near:
        return _talk(view, terms, hits, scale, by)
    values = _weigh(view, hits.ords, hits.values, by)
    ends = np.cumsum(hits.counts).tolist()
    for weight, begin, end in zip(scale.astype(np.float32), [0, *ends], ends, strict=False):
        values[begin:end] *= weight
    return sum_at(hits.ords, values, view.size)


def lexical_of_few(
    view: Snapshot,
    ords: Ints,
    found: TokenStreams,
    terms: Keys,
    term_weight: Floats,
    *,
    by: Weighing,
) -> Floats:
    """The lexical score of some chunks, given all that stands in them: the very numbers of `lexical`, without postings.

    Not for conversations.
    """
    slots, hit = _locate(terms, found.terms)
    pairs = slots[hit] * len(ords) + found.owner[hit]
    counts = np.bincount(4 * pairs + found.field[hit], minlength=4 * len(terms) * len(ords))
    counts = counts.reshape(-1, 4)
    held = np.flatnonzero(counts.any(1))
    term, owner = np.divmod(held, len(ords))
    values = _weigh(view, ords[owner], pack(*counts[held].T), by)
    values *= (term_weight * (by.k1 + 1)).astype(np.float32)[term]
    return sum_at(owner, values, len(ords))


def _weigh(
    view: Snapshot, ords: Ints, packed: npt.NDArray[np.uint16], by: Weighing
) -> npt.NDArray[np.float32]:
    """What each posting adds to its chunk's score."""
    n = packed.astype(np.float32)  # the count itself, in the body alone
    if len(rest := np.flatnonzero(packed > 255)):
        n[rest] = table(title=by.title, speaker=1.0, date=1.0).take(packed[rest])
    damp = view.norms(b=by.b, title=by.title, head=True).take(ords)
    damp *= by.k1
    damp += n  # `saturate` in place and in 32 bits, since the postings of a common term are many
    n /= damp
    return n


def within(keys: npt.NDArray[np.integer], found: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of the found keys are among the sorted ones; for short arrays far faster than np.isin."""
    if not len(keys):
        return np.zeros(len(found), bool)
    return np.asarray(keys[np.minimum(keys.searchsorted(found), len(keys) - 1)] == found)


def distinct(keys: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The keys, sorted, each once. A sort and a mask are faster than np.unique, which also loads numpy.ma."""
    keys = np.sort(keys)
    return keys[firsts(keys)]


def number_keys(keys: npt.NDArray[Number]) -> tuple[npt.NDArray[Number], Ints]:
    """The same, and which of them each key is."""
    order = keys.argsort()
    ranked = keys[order]
    first = firsts(ranked)
    slots = np.empty(len(keys), np.int64)
    slots[order] = first.cumsum() - 1
    return ranked[first], slots


def firsts(ranked: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of some sorted keys differ from the one before."""
    first = np.ones(len(ranked), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
    return first


def _locate(
    keys: npt.NDArray[Number], found: npt.NDArray[Number]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For each of `found`, which of `keys` it is, and whether it is one of them."""
    order = keys.argsort()
    slots = order[np.minimum(keys[order].searchsorted(found), len(keys) - 1)]
    return slots, keys[slots] == found


def sum_at(slots: Ints, values: npt.NDArray[np.floating], size: int) -> Floats:
    """The sum of the values at each slot."""
    return np.asarray(np.bincount(slots, values, minlength=size), np.float64)


def _talk(view: Snapshot, terms: Keys, hits: Postings, scale: Floats, by: Weighing) -> Floats:
    """The same in a conversation. Works in reading order, where neighbors are next to each other."""
    rank, standing = view.reading_order()
    spoken = within(view.speakers(), terms)
    f = table(title=by.title).take(hits.values).astype(np.float64)
    f /= view.norms(b=by.b, title=by.title, head=False)[hits.ords]
    heads = presence_weights(speaker=by.speaker, date=by.date).take(hits.values)
    reach = len(by.near)
    total = np.zeros(len(standing) + 2 * reach)
    sums = np.zeros_like(total)
    begin = 0
    for index, count in enumerate(hits.counts):
        end = begin + count
        at = rank[hits.ords[begin:end]] + reach
        touched = [at]
        # every index list holds each rank once, so that plain assignment adds correctly
        sums[at] += heads[begin:end] if spoken[index] else f[begin:end] + heads[begin:end]
        if not spoken[index]:
            for step, weight in enumerate(by.near, 1):
                for shift in (step, -step):
                    sums[at + shift] += weight * f[begin:end]
                    touched.append(at + shift)
        where = np.concatenate(touched)
        # a rank met twice gets the same value
        total[where] += saturate(sums[where], by.k1, scale[index])
        sums[where] = 0.0
        begin = end
    scores = np.zeros(view.size)
    scores[standing] = total[reach : reach + len(standing)]
    return scores


def phrases(
    view: Snapshot,
    ords: Ints,
    found: TermPositions,
    query: Sequence[tuple[int, ...]],
    term_idf: dict[int, float],
    *,
    by: Weighing,
) -> Floats:
    """A bonus for each of some chunks that holds two neighboring words of the query side by side, given where they
    stand.

    A pair counts less, the more of the chunks that hold its rarer word hold the pair: of a fixed expression, one word
    tells the other. The terms of one word (parts of an identifier, pairs of signs in a script without spaces) are not
    a phrase: they would count the word twice.
    """
    bonus = np.zeros(len(ords))
    seams = [(before[-1], after[0]) for before, after in pairwise(query)]
    pairs = {(a, b): term_idf[a] + term_idf[b] for a, b in seams if a in term_idf and b in term_idf}
    if not pairs:
        return bonus
    talk = view.conversational and bool(by.near)
    # runs of text within which two terms can be neighbors: the title, and the rest (without a chat head)
    block = np.array([0, -1, -1, 1] if talk else [0, 1, 1, 1])[found.field]
    keys = np.array(sorted({*chain(*query)}), np.uint64)
    term, owner = keys.searchsorted(found.terms), found.owner
    beside = (owner[1:] == owner[:-1]) & (found.position[1:] - found.position[:-1] == 1)
    beside &= (block[1:] == block[:-1]) & (block[:-1] >= 0)
    at = np.flatnonzero(beside)  # a query term, followed by another
    first, second = keys.searchsorted(np.array([*pairs], np.uint64).T)
    which, hit = _locate(first * len(keys) + second, term[at] * len(keys) + term[at + 1])
    n = np.bincount(which[hit] * len(ords) + owner[at[hit]], minlength=len(pairs) * len(ords))
    n = n.reshape(len(pairs), -1)
    held = np.zeros((len(keys), len(ords)), bool)
    held[term, owner] = True
    fixed = (n > 0).sum(1) / (np.minimum(*held.sum(1)[[first, second]]) + 1)
    weight = (1 - fixed) * np.array([*pairs.values()])
    damp = by.k1 * view.norms(b=by.b, title=by.title, head=not talk)[ords].astype(np.float64)
    # `saturate` written out: with its order of factors, scores of repeated phrases differ in the last bit
    for row in weight[:, None] * n * (by.k1 + 1) / (n + damp):
        bonus += row  # one after the other, so that sums round the same way on every machine
    return bonus


def heads(spots: TermPositions, term_idf: dict[int, float], count: int, *, lead: int) -> Floats:
    """For each of `count` chunks, the idf of the query terms in its head: its title, else its first `lead` terms."""
    inside = np.where(spots.titled, spots.field == TITLE, spots.position < lead)
    held = {*zip(spots.owner[inside].tolist(), spots.terms[inside].tolist(), strict=True)}
    whose = np.array([owner for owner, _ in sorted(held)], np.int64)
    return sum_at(whose, np.array([term_idf[key] for _, key in sorted(held)], float), count)

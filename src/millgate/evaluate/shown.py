"""What is shown for a question, measured against its labels: the same rules for a context and for BM25.

    context_evidence   the share of the labeled passages that are shown, whole or in part
    whole_evidence     the share of which a chunk is shown whole
    answers            whether the words of an answer stand in what is shown, in their order and side by side
    tokens             what is sent, framing included

Words are compared as `text.words.tokens` reads them: compatibility forms and case are folded, and punctuation parts
words. In scripts that are written without spaces, and in Korean, each character is a word, so an ending or a particle
behind an answer does not hide it. In all others an answer must stand as whole words: "11" is not in "2011". Answers of
eight labeled sets in seven languages stand in their own passage by this rule in 99.3 to 100 % of the cases, and in six
other passages by chance in 1 to 4 %. A passage counts as shown if one with the same words is: `context()` shows a text
once.

BM25 is the baseline: plain scores over the terms of the index (the language's stems, stopwords left out, identifiers in
parts), k1 1.2 and b .75; a title counts as text. It fills the same budget under the same counter and framing. What does
not fit is skipped and smaller ones after it are taken: a strong baseline, so that a gain over it is a gain of the
ranking and the packing alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from millgate.protocols import Snapshot
from millgate.ranking.arrays import top
from millgate.ranking.score import Weighing, idf, lexical, read_chunks
from millgate.text.fence import fence_cost, frame
from millgate.text.terms import word_terms
from millgate.text.tokens import tokens_by_size
from millgate.text.words import tokens
from millgate.types import Candidate, Context

DEPTH = 300  # chunks of a ranking: more than fill 4 096 tokens, but for very short lines
LENGTH = 0.2  # measured: +.01 on encyclopedic and technical text


@dataclass(frozen=True, slots=True)
class Piece:
    """What is shown of one chunk, with the score it was chosen by."""

    document: str
    title: str
    text: str
    whole: bool
    score: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What a question's labels say: passages that answer it, with grades, and the words of the answer if known."""

    labels: Mapping[str, int]
    answers: Sequence[str] = ()
    copies: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def labeled(self, documents: Iterable[str]) -> set[str]:
        """The labeled passages among some documents, themselves or as copies."""
        given = set(documents)
        given = given.union(*(self.copies.get(id, ()) for id in given))
        return given & self.labels.keys()


def measure(pieces: Sequence[Piece], sent: int, truth: Truth) -> dict[str, float]:
    """The figures of what is shown for a question, `sent` tokens in all.

    `answers` is there if answers are known. `part_answers` is there if labeled passages are shown, but none of them
    whole: whether those parts hold the answer's words.
    """
    found = truth.labeled(piece.document for piece in pieces)
    whole = truth.labeled(piece.document for piece in pieces if piece.whole)
    figures = {
        "context_evidence": len(found) / len(truth.labels),
        "whole_evidence": len(whole) / len(truth.labels),
        "tokens": float(sent),
        "empty": float(not pieces),
    }
    if truth.answers:
        figures["answers"] = float(holds_answer(pieces, truth.answers))
        if found and not whole:
            parts = [piece for piece in pieces if truth.labeled([piece.document])]
            figures["part_answers"] = float(holds_answer(parts, truth.answers))
    return figures


def holds_answer(pieces: Iterable[Piece], answers: Iterable[str]) -> bool:
    """Whether one of the pieces holds all words of one of the answers, side by side."""
    wanted = [words for answer in answers if (words := _as_line(answer)).strip()]
    shown = [_as_line(f"{piece.title}\n{piece.text}") for piece in pieces]
    return any(words in line for line in shown for words in wanted)


def _as_line(text: str) -> str:
    return f" {' '.join(tokens(text))} "


def pieces_of(context: Context) -> list[Piece]:
    """What a context shows, in its order."""
    scores = {c.chunk.id: c.score for c in context.trace.candidates}
    return [
        Piece(
            chunk.document, chunk.title, text, text == chunk.text.strip(), scores.get(chunk.id, 0.0)
        )
        for chunk, text in zip(context.chunks, context.texts, strict=True)
    ]


def whole_pieces(chosen: Iterable[Candidate]) -> list[Piece]:
    """Candidates shown whole, as a baseline shows them."""
    return [Piece(c.chunk.document, c.chunk.title, c.chunk.text, True, c.score) for c in chosen]  # noqa: FBT003


def count_piece(title: str, text: str, count: Callable[[str], int]) -> int:
    """The tokens of a piece as `context()` frames and counts it, without those of the fence."""
    return count(frame(1, title, text) + "\n")


def rank_by_bm25(query: str, view: Snapshot) -> tuple[Candidate, ...]:
    """The chunks by their BM25 score, best first."""
    times = Counter(chain.from_iterable(word_terms(query, view.language)))
    keys = np.array(sorted(times), np.uint64)
    hits = view.postings(keys)
    asked = np.array([times[key] for key in keys.tolist()], float)
    scores = lexical(view, keys, hits, asked * idf(view.count, hits.counts), Weighing())
    chunks = read_chunks(view, top(scores, DEPTH, view))
    return tuple(Candidate(chunk, float(scores[ord])) for ord, chunk in chunks.items())


def fill(
    ranking: Iterable[Candidate], budget: float, cost: Callable[[Candidate], float]
) -> list[Candidate]:
    """The candidates of a ranking that fit the budget, in its order; those that do not fit are skipped."""
    chosen = []
    for candidate in ranking:
        tokens = cost(candidate)
        if tokens <= budget:
            chosen.append(candidate)
            budget -= tokens
    return chosen


def fill_by_bm25(
    ranking: Sequence[Candidate], budget: int, count: Callable[[str], int]
) -> tuple[list[Piece], int]:
    """What BM25 shows in a budget, and the tokens it sends, counted and framed as `context()` does it."""

    def cost(candidate: Candidate) -> int:
        return count_piece(candidate.chunk.title, candidate.chunk.text, count)

    framing = fence_cost(count)
    inside = fill(ranking, budget - framing, cost)
    return whole_pieces(inside), sum(map(cost, inside)) + (framing if inside else 0)


def order_by_value(ranking: Iterable[Candidate], *, talk: bool) -> list[Candidate]:
    """The candidates by score / tokens^.2: two short ones are worth more than a long one. In conversations, where all
    are short, by score alone.
    """
    power = 0.0 if talk else LENGTH
    return sorted(ranking, key=lambda c: -c.score / max(size(c), 0.25) ** power)


def size(candidate: Candidate) -> float:
    """Tokens of a candidate with its title, by four characters a token, as other retrievers are measured."""
    chunk = candidate.chunk
    return tokens_by_size(len(chunk.text) + (len(chunk.title) + 2 if chunk.title else 0))

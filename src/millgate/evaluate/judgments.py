"""Judgments: what people said about questions of their own, as labels to fit the model of relevance on.

A test of `millgate test` names the chunks that its question needs. A review that a person approved says the same of the
chunks that were found for it. A rejected one says that they are wrong, so its question counts as one that the
collection cannot answer. An answered review says nothing about the chunks: the person wrote something else.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from millgate.errors import InputError
from millgate.evaluate.fit import Asked, as_data, describe, fit, rank
from millgate.evaluate.regression import names_chunk
from millgate.evaluate.regression_file import read_cases
from millgate.gateway import Millgate
from millgate.pipeline.stages.decide import decide
from millgate.ranking.model import Model
from millgate.types import Chunk, Request, Trace, Window

OWN, REJECTED = "own", "rejected"  # the set, and the source of questions that it cannot answer
PARTS = (
    5  # the questions are parted in so many; each part is judged by weights fitted on the others
)
MIN_ANSWERABLE = PARTS  # with fewer, a part would have none


@dataclass(frozen=True, slots=True)
class Judgment:
    """A question, and the ids or patterns of chunks or documents that answer it; none if what is found is wrong."""

    request: Request
    right: tuple[str, ...]

    def is_right(self, chunk: Chunk) -> bool:
        """Whether a chunk answers the question."""
        return any(names_chunk(wanted, chunk) for wanted in self.right)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What contexts are like under some weights; `stopped` is None if nothing was rejected."""

    evidence: float
    tokens: float
    empty: float
    stopped: float | None


def read_judgments(gate: Millgate, files: Sequence[Path]) -> list[Judgment]:
    """The questions of test files, and the decided reviews of the store."""
    found = [
        Judgment(
            Request(
                case.question,
                case.budget,
                gate.tenant,
                case.collection,
                Window.of(list(case.window)),
                case.k,
            ),
            case.must,
        )
        for file in files
        for case in read_cases(file)
        if case.must
    ]
    for status in ("approved", "rejected"):
        for review in gate.reviews.reviews(status):
            right = tuple(review.grades) if status == "approved" else ()
            if status == "approved" and not right:
                continue  # nothing was found, so nothing was approved
            asked = Request(
                review.query, tenant=gate.tenant, collection=review.collection.split(", ")
            )
            found.append(Judgment(asked, right))
    if sum(bool(one.right) for one in found) < MIN_ANSWERABLE:
        raise InputError(
            f"there are fewer than {MIN_ANSWERABLE} questions of which the right chunks are known",
            hint="record some in a file, millgate test FILE --record 'A question?', or approve reviews: millgate reviews list",
        )
    return found


def observe_judged(gate: Millgate, judgment: Judgment) -> list[Asked]:
    """A judged question as the model sees it in each of its collections; nothing if no chunk was found."""
    source = OWN if judgment.right else REJECTED
    text, asked = judgment.request.query, list[Asked]()
    for name in judgment.request.collections:
        ranking = rank(gate, text, name)
        labeled = [judgment.is_right(c.chunk) for c in ranking]
        asked += describe(gate, text, name, ranking, labeled, name=OWN, source=source)
    return asked


def compare(
    gate: Millgate,
    judgments: Sequence[Judgment],
    *,
    start: Model,
    folder: Path,
    tick: Callable[[], object] = lambda: None,
) -> tuple[Outcomes, Outcomes]:
    """What the contexts of the questions are like now, and by weights fitted on the other questions.

    The weights are written to files in the folder.
    """
    observed = [observe_judged(gate, judgment) for judgment in judgments]
    before, after = list[_Shown](), list[_Shown]()
    for part in range(PARTS):
        others = [a for at, some in enumerate(observed) if at % PARTS != part for a in some]
        file = folder / f"{part}.json"
        file.write_text(json.dumps(as_data(fit(others, start=start))), encoding="utf-8")
        for judgment in judgments[part::PARTS]:
            trace = Trace("", judgment.request, decide(judgment.request, gate.settings.decide))
            made = gate.replay(trace, {"grade.weights": str(file)})
            for outcome, shown in ((made.before, before), (made.after, after)):
                chunks = _chunks(gate, judgment.request, outcome.kept)
                shown.append(_Shown(judgment, chunks, outcome.tokens))
            tick()
    return _sum_up(before), _sum_up(after)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the context of one question showed."""

    judgment: Judgment
    chunks: Sequence[Chunk]
    tokens: int

    @property
    def evidence(self) -> float:
        """The share of what is right that was shown."""
        right = self.judgment.right
        return sum(any(names_chunk(w, c) for c in self.chunks) for w in right) / len(right)


def _chunks(gate: Millgate, request: Request, ids: Sequence[str]) -> list[Chunk]:
    held = (gate.store.chunks(gate.tenant, name, ids) for name in request.collections)
    return [chunk for some in held for chunk in some]


def _sum_up(shown: Sequence[_Shown]) -> Outcomes:
    own = [one for one in shown if one.judgment.right]
    wrong = [one for one in shown if not one.judgment.right]
    return Outcomes(
        evidence=_mean([one.evidence for one in own]),
        tokens=_mean([one.tokens for one in own]),
        empty=_mean([not one.tokens for one in own]),
        stopped=_mean([not one.tokens for one in wrong]) if wrong else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

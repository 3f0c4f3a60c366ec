"""Answer: a guarded answer with its cuts, and entropy and repetition along it, read from the trace of its call.

What the client has and what was cut are laid end to end, as the model sent them. The curves are those of `headgate
guard --plot`: entropy of the last 64 characters, and the length of the repetition going on, on a logarithmic scale.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2

from headgate.guard.channels import CONTENT
from headgate.guard.plot import BITS, RUN, Profile
from headgate.notes import Stage
from headgate.service.proxy.model_call import GAP
from headgate.types import Step, Trace

WIDTH, HEIGHT = 1000, 90
MAX_CHARS = 16_000  # that are measured


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of the stream: what the client has, or what was cut and by which step."""

    text: str
    cut: Step | None = None


@dataclass(frozen=True, slots=True)
class Curves:
    """Two curves over the stream as points of polylines, and the cuts as boxes (x, width)."""

    entropy: str
    repetition: str
    cuts: tuple[tuple[float, float], ...]
    chars: int


def answer_parts(trace: Trace) -> list[AnswerPart]:
    """The stream in order; empty where nothing was cut or the text was not kept."""
    call = next((step for step in trace.steps if step.stage is Stage.MODEL), None)
    if call is None or not call.text:
        return []
    kept = call.text.split(GAP)
    cuts = [s for s in trace.steps if s.stage is Stage.CUT and s.facts.get("channel") == CONTENT]
    parts = []
    for number, text in enumerate(kept):
        parts.append(AnswerPart(text))
        if number < len(cuts):
            parts.append(AnswerPart(cuts[number].text, cuts[number]))
    return [part for part in parts if part.text]


def draw_curves(parts: Sequence[AnswerPart]) -> Curves:
    """Entropy and repetition along the stream."""
    profile = Profile(every=4)
    profile.feed("".join(part.text for part in parts)[:MAX_CHARS])
    samples = profile.samples
    chars = max(1, samples[-1].position if samples else 1)
    return Curves(
        " ".join(_point(s.position / chars, s.bits / BITS) for s in samples),
        " ".join(_point(s.position / chars, log2(s.run + 1) / RUN) for s in samples),
        tuple(_boxes(parts, chars)),
        chars,
    )


def _point(x: float, y: float) -> str:
    return f"{WIDTH * x:.1f},{HEIGHT * (1 - min(1.0, y)):.1f}"


def _boxes(parts: Sequence[AnswerPart], chars: int) -> Iterator[tuple[float, float]]:
    at = 0
    for part in parts:
        if part.cut is not None and at < chars:
            yield WIDTH * at / chars, WIDTH * min(len(part.text), chars - at) / chars
        at += len(part.text)

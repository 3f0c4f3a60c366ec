"""Redacted: a trace without the secrets in its texts, as it is stored."""

from dataclasses import replace
from operator import is_

from headgate.text.redact import redact
from headgate.types import Candidate, Trace


def redact_trace(trace: Trace) -> Trace:
    """The trace with a placeholder for every secret in its query, its window, its candidates and its steps."""
    request = trace.request
    query = redact(request.query)
    texts = tuple(map(redact, request.window.texts))
    if query != request.query or texts != request.window.texts:
        request = replace(request, query=query, window=replace(request.window, texts=texts))
    candidates = tuple(map(_redact_candidate, trace.candidates))
    steps = tuple(replace(s, text=redact(s.text)) if s.text else s for s in trace.steps)
    if request is trace.request and all(map(is_, candidates, trace.candidates)):
        return trace if steps == trace.steps else replace(trace, steps=steps)
    return replace(trace, request=request, candidates=candidates, steps=steps)


def _redact_candidate(candidate: Candidate) -> Candidate:
    text = redact(candidate.chunk.text)
    if text == candidate.chunk.text:
        return candidate
    return replace(candidate, chunk=replace(candidate.chunk, text=text))

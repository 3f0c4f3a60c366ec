"""Model calls as their traces tell them: a session in which the provider's cache broke three times."""

import orjson

from millgate.guard.dialects.usage import CachedInput
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.model_call import ModelCall
from millgate.sessions.prompt_cache.judgment import CacheCounts, Judgment

MODEL = "claude-opus-4-6"
TURNS = (
    # read, written, why it broke, whose doing
    (0, 42_000, "", "none"),
    (42_000, 1_800, "", "none"),
    (43_800, 2_600, "", "none"),
    (21_400, 27_500, 'message 4 (result of Read src/parser.py) was changed', "client"),
    (48_900, 1_900, "", "none"),
    (50_800, 3_100, "", "none"),
    (0, 55_200, "the last call was 22 min ago, and the cache keeps it for 5 min", "time"),
    (55_200, 2_000, "", "none"),
    (57_200, 2_400, "", "none"),
    (0, 61_000, 'system block 2 ("Today is Tuesday, 14:32.…") was changed', "client"),
    (61_000, 1_500, "", "none"),
)  # fmt: skip


def broken_session(*, session="parser", now=1_763_000_000.0, tenant="default", key="k1"):
    """The traces of its calls, oldest first, a minute apart."""
    left = 0
    for number, (read, written, reason, blame) in enumerate(TURNS):
        counts = CacheCounts(read, written, 40, is_automatic=False)
        said = " ".join(f"word{n}" for n in range(600 * (number + 1)))
        messages = [{"role": "user", "content": "Mend the parser."}, {"role": "assistant", "content": said}]  # fmt: skip
        lost = min(left - read, written) if reason else 0
        call = ModelCall(
            "/v1/messages", id=f"{session}-{number:02d}", model=MODEL, upstream="main", session=session, key=key,
            query="Mend the parser." if number == 0 else "", status=200, answered=True, sent=_body(messages),
            input_tokens=40, cached_input=CachedInput(0, read, written), output_tokens=400, cache_counts=counts, cost=round((written * 6.25 + read * 0.5 + 400 * 25) / 1e6, 6),
            cache_judgment=Judgment(blame, reason, left, read, lost, counts), cache_cost=lost * 5.75 / 1e6,
        )  # fmt: skip
        left = read + written
        yield call_trace(call, tenant=tenant, now=now + 60 * number)


def _body(messages):
    return orjson.dumps({"model": MODEL, "system": "Be brief.", "messages": messages})

"""Stream failsafe: the design's own examples, and a plain re-implementation beside ours on random inputs."""

import math
import random
from collections import Counter

import pytest
from tests.published.cases import random_cases

from millgate.errors import InputError, LoopError
from millgate.guard import PUBLISHED_DIVERGENCE, EntropyDetector
from millgate.guard.policy import EntropyRule
from millgate.published.stream_failsafe import (
    DIVERGENCE_TOKEN,
    Collapse,
    CRFState,
    EntropyCRFConfig,
    EntropyCRFMiddleware,
    EntropyMonitor,
)

PROSE = (
    "A millgate stands at the mouth of a channel and decides how much water may enter. When the river "
    "rises the keeper lowers the boards, and when it falls he lifts them again, so that the fields below "
    "get what they can drink and no more. Nobody thanks him for a quiet year. "
)
ASK = [{"role": "user", "content": "Tell me about millgates."}]


def entropy(text):
    shares = [n / len(text) for n in Counter(text).values()]
    return -sum(p * math.log2(p) for p in shares)


def plain_collapse(text, config, seen=0):
    """The first collapse in a text behind `seen` characters, by entropies computed anew for each character."""
    bits = [entropy(text[max(0, at - config.window_size) : at]) for at in range(1, len(text) + 1)]
    for at, now in enumerate(bits):
        if at + 1 < min(config.warm_up, config.window_size):
            continue
        end = seen + at + 1
        if now < config.min_entropy:
            return end, max(0, end - config.window_size)
        if at >= config.k and bits[at - config.k] - now >= config.drop_threshold:
            return end, max(0, end - config.k)
    return None


def random_config(rng):
    # thresholds that no entropy of so small a window can hit exactly
    return EntropyCRFConfig(
        window_size=rng.randrange(4, 13),
        min_entropy=rng.uniform(0, 1.6),
        drop_threshold=rng.uniform(0.2, 1.5),
        k=rng.randrange(1, 6),
        warm_up=rng.randrange(1, 16),
        max_rollbacks=rng.randrange(3),
    )


def random_answer(rng):
    varied = "".join(rng.choices("abcdefghij ", k=rng.randrange(16)))
    return varied + rng.choice(["ab", "do ", "a", ""]) * rng.randrange(8)


def test_the_examples():
    assert DIVERGENCE_TOKEN == PUBLISHED_DIVERGENCE == "<system: branch_divergence_forced>"
    default = EntropyCRFConfig()
    assert (default.window_size, default.min_entropy, default.drop_threshold) == (64, 1.5, 0.3)
    assert (default.k, default.warm_up, default.max_rollbacks) == (8, 16, 3)
    for unit in ("fo", "do"):
        watched = EntropyCRFMiddleware(ASK)
        assert watched.process_chunk(PROSE) is CRFState.STATE_GENERATING
        assert watched.process_chunk(unit * 40) is CRFState.STATE_RECOVERING
        assert watched.collapses[0].position - len(PROSE) <= 32
        assert watched.collapses[0].reason.startswith("derivative")
        again = watched.rollback()
        assert again[:-1] == ASK
        assert again[-1]["content"] == watched.text + DIVERGENCE_TOKEN
    rich = EntropyCRFMiddleware(ASK)
    assert rich.process_chunk("therefore, " * 60) is CRFState.STATE_GENERATING  # 2.8 bits


def first(monitor, text):
    return next((found for found in map(monitor.push, text) if found), None)


@random_cases
def test_a_collapse_is_found_where_plain_entropies_show_it(cases):
    rng = random.Random(1)
    found = 0
    for _ in range(cases):
        config, text = random_config(rng), random_answer(rng)
        plain = plain_collapse(text, config)
        ours = first(EntropyMonitor(config), text)
        assert (ours and ours[:2]) == plain
        found += plain is not None
    assert cases / 10 < found < cases


def test_with_the_published_numbers_too():
    rng = random.Random(2)
    for _ in range(300):
        text = PROSE[: rng.randrange(90)] + random_answer(rng) * rng.randrange(1, 9)
        ours = first(EntropyMonitor(), text)
        assert (ours and ours[:2]) == plain_collapse(text, EntropyCRFConfig())


def plain_rollbacks(answers, config):
    """What an answer becomes: slice at the collapse, call again, give up after max_rollbacks."""
    text, histories = "", []
    for answer in answers:
        hit = plain_collapse(answer, config, len(text))
        if hit is None:
            return text + answer, histories, "done"
        text = (text + answer)[: hit[1]]
        if len(histories) == config.max_rollbacks:
            return text, histories, "failed"
        histories.append(text + config.divergence_token)
    return text, histories, "asks again"


@random_cases
def test_an_answer_is_rolled_back_as_in_a_plain_loop(cases):
    rng = random.Random(3)
    ends = Counter()
    for _ in range(cases):
        config = random_config(rng)
        answers = [random_answer(rng) for _ in range(4)]
        text, histories, end = plain_rollbacks(answers, config)
        watched, asked = EntropyCRFMiddleware(ASK, config), []
        for answer in answers:
            cut = rng.randrange(len(answer) + 1)
            for chunk in (answer[:cut], answer[cut:]):
                if watched.process_chunk(chunk) is CRFState.STATE_RECOVERING:
                    break
            if watched.state is CRFState.STATE_GENERATING:
                watched.finish()
                break
            if watched.rollbacks == config.max_rollbacks:
                with pytest.raises(LoopError) as given_up:
                    watched.rollback()
                assert given_up.value.text == watched.text
                break
            asked.append(watched.rollback()[-1]["content"])
        assert (watched.text, asked) == (text, histories)
        state = {"done": "done", "failed": "failed", "asks again": "generating"}[end]
        assert watched.state == state
        ends[end] += 1
    assert min(ends["done"], ends["failed"]) > cases / 20


async def test_the_middleware_calls_the_model_until_an_answer_ends():
    calls, closed = [], []
    script = [[PROSE, "fo" * 60, "never read"], [" It is", " made of wood."]]

    async def generate(messages):
        calls.append(messages)
        try:
            for chunk in script[len(calls) - 1]:
                yield chunk
        finally:
            closed.append(len(calls))

    watched = EntropyCRFMiddleware(ASK)
    said = [chunk async for chunk in watched.stream(generate)]
    assert said == [PROSE, " It is", " made of wood."]
    assert watched.text.endswith(" It is made of wood.")
    assert watched.state is CRFState.STATE_DONE
    assert closed == [1, 2]
    assert calls[1][-1]["content"].endswith(DIVERGENCE_TOKEN)


async def test_after_three_rollbacks_the_fourth_collapse_fails():
    async def generate(messages):
        yield PROSE + "fo" * 60

    watched = EntropyCRFMiddleware(ASK)
    with pytest.raises(LoopError, match="4 times"):
        [chunk async for chunk in watched.stream(generate)]
    assert (watched.rollbacks, watched.state) == (3, CRFState.STATE_FAILED)


def test_states_are_not_left_out():
    watched = EntropyCRFMiddleware(ASK)
    with pytest.raises(InputError, match="nothing to roll back"):
        watched.rollback()
    watched.process_chunk(PROSE + "fo" * 60)
    with pytest.raises(InputError, match="recovering"):
        watched.process_chunk("more")


def test_the_guard_takes_its_rule_from_here():
    rule, config = EntropyRule(), EntropyCRFConfig()
    assert (rule.window, rule.min_bits, rule.max_drop) == (64, 1.5, 0.3)
    assert (rule.span, rule.warm_up) == (config.k, config.warm_up)
    stall = EntropyDetector().feed(PROSE + "fo" * 60)
    found = first(EntropyMonitor(), PROSE + "fo" * 60)
    assert isinstance(found, Collapse)
    assert (stall.position, stall.reason) == (found.position, found.reason)

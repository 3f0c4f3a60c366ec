"""Stream failsafe: the design's own examples, and a plain re-implementation beside ours on random inputs."""

import math
import random
from collections import Counter
from contextlib import suppress

import pytest
from tests.published.cases import random_cases

from millgate.errors import LoopError
from millgate.guard import PUBLISHED_DIVERGENCE, EntropyDetector
from millgate.guard.policy import EntropyRule
from millgate.published.stream_failsafe import (
    DIVERGENCE_TOKEN,
    Collapse,
    CRFState,
    EntropyCRFMiddleware,
    EntropyMonitor,
    LocalAgentConfig,
    chat_stream,
)

PROSE = (
    "A millgate stands at the mouth of a channel and decides how much water may enter. When the river "
    "rises the keeper lowers the boards, and when it falls he lifts them again, so that the fields below "
    "get what they can drink and no more. Nobody thanks him for a quiet year. "
)
PUBLISHED = {"window_size": 64, "min_entropy": 1.5, "drop_threshold": 0.3, "k": 8, "warm_up": 16}
ASK = [{"role": "user", "content": "Tell me about millgates."}]


def entropy(text):
    shares = [n / len(text) for n in Counter(text).values()]
    return -sum(p * math.log2(p) for p in shares)


def plain_collapse(text, config, seen=0):
    """The first collapse in a text behind `seen` characters, by entropies computed anew for each character."""
    bits = [
        entropy(text[max(0, at - config["window_size"]) : at]) for at in range(1, len(text) + 1)
    ]
    for at, now in enumerate(bits):
        if at + 1 < min(config["warm_up"], config["window_size"]):
            continue
        end = seen + at + 1
        if now < config["min_entropy"]:
            return end, max(0, end - config["window_size"])
        if at >= config["k"] and bits[at - config["k"]] - now > config["drop_threshold"]:
            return end, max(0, end - config["k"])
    return None


def random_config(rng):
    # thresholds that no entropy of so small a window can hit exactly
    return {
        "window_size": rng.randrange(4, 13),
        "min_entropy": rng.uniform(0, 1.6),
        "drop_threshold": rng.uniform(0.2, 1.5),
        "k": rng.randrange(1, 6),
        "warm_up": rng.randrange(1, 16),
        "max_rollbacks": rng.randrange(3),
    }


def random_answer(rng):
    varied = "".join(rng.choices("abcdefghij ", k=rng.randrange(16)))
    return varied + rng.choice(["ab", "do ", "a", ""]) * rng.randrange(8)


def monitor_of(config):
    return EntropyMonitor(**{k: v for k, v in config.items() if k != "max_rollbacks"})


def first(monitor, text):
    return next((found for found in map(monitor.push, text) if found), None)


@random_cases
def test_a_collapse_is_found_where_plain_entropies_show_it(cases):
    rng = random.Random(1)
    found = 0
    for _ in range(cases):
        config, text = random_config(rng), random_answer(rng)
        plain = plain_collapse(text, config)
        ours = first(monitor_of(config), text)
        assert (ours and ours[:2]) == plain
        found += plain is not None
    assert cases / 10 < found < cases


def test_with_the_published_numbers_too():
    rng = random.Random(2)
    for _ in range(300):
        text = PROSE[: rng.randrange(90)] + random_answer(rng) * rng.randrange(1, 9)
        ours = first(EntropyMonitor(), text)
        assert (ours and ours[:2]) == plain_collapse(text, PUBLISHED)


def plain_rollbacks(answers, config):
    """What an answer becomes: slice at the collapse, call again, give up after max_rollbacks."""
    text, histories = "", []
    for answer in answers:
        hit = plain_collapse(answer, config, len(text))
        if hit is None:
            return text + answer, histories, "done"
        text = (text + answer)[: hit[1]]
        if len(histories) == config["max_rollbacks"]:
            return text, histories, "failed"
        histories.append(text + DIVERGENCE_TOKEN)
    return text, histories, "asks again"


@random_cases
async def test_an_answer_is_rolled_back_as_in_a_plain_loop(cases):
    rng = random.Random(3)
    ends = Counter()
    for _ in range(cases):
        config = random_config(rng)
        answers = [random_answer(rng) for _ in range(3)] + ["a good end"]
        text, histories, end = plain_rollbacks(answers, config)
        asked = []

        async def generate(messages, answers=answers, asked=asked):
            asked.append(messages[len(ASK) :])
            answer = answers[len(asked) - 1]
            cut = rng.randrange(len(answer) + 1)
            for chunk in (answer[:cut], answer[cut:]):
                yield chunk

        watched = EntropyCRFMiddleware(generate, **config)
        with suppress(LoopError):
            await as_said(watched.generate(ASK))
        if end == "asks again":  # the good end stalls too, under rules this strict
            continue
        assert watched.text == text
        assert [messages[0]["content"] for messages in asked[1:]] == histories
        assert watched.state == end
        ends[end] += 1
    assert min(ends["done"], ends["failed"]) > cases / 20


async def as_said(stream):
    return [chunk async for chunk in stream]


async def test_the_middleware_calls_the_model_until_an_answer_ends():
    calls, closed = [], []
    script = [[PROSE, "fo" * 60, "never read"], [" It is", " made of wood."]]

    async def stream(messages):
        calls.append(messages)
        try:
            for chunk in script[len(calls) - 1]:
                yield chunk
        finally:
            closed.append(len(calls))

    async def generate(messages):  # the published form: a coroutine that gives the stream
        return stream(messages)

    watched = EntropyCRFMiddleware(generate)
    said = await as_said(watched.generate(ASK))
    assert (said[0], said[-2:]) == (PROSE, [" It is", " made of wood."])
    assert len("".join(said)) - len(PROSE) < 64
    assert watched.text.endswith(" It is made of wood.")
    assert (watched.state, closed) == (CRFState.STATE_DONE, [1, 2])
    assert calls[0] == calls[1][:-1] == ASK
    assert calls[1][-1]["content"].endswith(DIVERGENCE_TOKEN)


async def test_good_text_before_a_stall_in_the_same_chunk_is_given():
    async def generate(messages):
        yield PROSE + "fo" * 60 if len(messages) == len(ASK) else " The end."

    said = "".join(await as_said(EntropyCRFMiddleware(generate).generate(ASK)))
    assert said.startswith(PROSE[:-8])
    assert said.endswith(" The end.")


async def test_after_three_rollbacks_the_fourth_stall_fails():
    async def generate(messages):
        yield PROSE + "fo" * 60

    watched = EntropyCRFMiddleware(generate)
    with pytest.raises(LoopError, match="4 times"):
        await as_said(watched.generate(ASK))
    assert (watched.rollbacks, watched.state) == (3, CRFState.STATE_FAILED)


async def test_a_failsafe_that_is_off_lets_everything_through():
    async def generate(messages):
        yield PROSE + "fo" * 60

    off = LocalAgentConfig(enable_lz_crf=False)
    assert await as_said(chat_stream(generate, ASK, off)) == [PROSE + "fo" * 60]
    with pytest.raises(LoopError):
        await as_said(chat_stream(generate, ASK))


def test_the_guard_takes_its_rule_from_here():
    rule = EntropyRule()
    assert [rule.window, rule.min_bits, rule.max_drop, rule.span, rule.warm_up] == [
        *PUBLISHED.values()
    ]
    assert PUBLISHED_DIVERGENCE == DIVERGENCE_TOKEN
    stall = EntropyDetector().feed(PROSE + "fo" * 60)
    found = first(EntropyMonitor(), PROSE + "fo" * 60)
    assert isinstance(found, Collapse)
    assert (stall.position, stall.reason) == (found.position, found.reason)

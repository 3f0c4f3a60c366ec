"""The cache witness: CPU and memory of comparing a request of 200 000 tokens with the last one, and of a session.

    make bench-cache [ARGS="--tokens 200000"]

The session is drawn from a seed. Each turn adds a call and its result of about 1 000 tokens; the request holds all of
it. CPU is the least of several runs on fields that were just parsed, as the proxy has them. "first" is a conversation
that was not seen before, "adds" a turn that only adds to the last one, "breaks" one whose system prompt changed.
Memory is what the witness keeps of the conversation by tracemalloc, and what it takes it for.
"""

import argparse
import random
import time
import tracemalloc

import orjson

from millgate.sessions.conversation import Conversation, Conversations, Owner
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.sessions.witness import observe

RUNS = 20
CHARS_PER_TOKEN = 4


SOMEBODY = Owner("t")


def make_request(tokens: int, per_turn: int = 1_000) -> dict:
    """A request of Anthropic's API with about so many tokens."""
    rng = random.Random(1)
    words = [f"{rng.choice('abcdefgh')}{rng.randrange(10_000)}" for _ in range(2_000)]

    def prose(count: int) -> str:
        text = " ".join(rng.choices(words, k=CHARS_PER_TOKEN * count // 5))
        return text[: CHARS_PER_TOKEN * count]

    messages: list[dict] = [{"role": "user", "content": "Mend the parser."}]
    for turn in range(max(1, tokens // per_turn)):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"file_path": f"src/{turn}.py"}}  # fmt: skip
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": prose(per_turn - 60)}
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": prose(40)}, call]},
            {"role": "user", "content": [result]},
        ]
    tools = [{"name": f"Tool{n}", "description": prose(150), "input_schema": {}} for n in range(20)]
    return {"model": "m", "tools": tools, "system": prose(2_000), "messages": messages}


def least_ms(work) -> float:
    """The least time of several runs, in milliseconds of CPU."""
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1000 * min(times)


def compare(conversations, session, fields):
    """A request beside the last one of its conversation."""
    known = conversations.of_session(SOMEBODY, session)
    prompt = read_prompt(fields, before=known[-1].original if known else None)
    return observe(prompt, conversations.find(SOMEBODY, session, prompt), fields)


def remember(conversations, session, fields, counts):
    """Keep a request as one that was answered."""
    prompt = read_prompt(fields)
    conversations.remember(SOMEBODY, Conversation(session, prompt, prompt, counts=counts), None)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--tokens", type=int, default=200_000)
    given = parser.parse_args()
    body = orjson.dumps(make_request(given.tokens))
    whole = orjson.loads(body)
    before = {**whole, "messages": whole["messages"][:-2]}
    broken = orjson.loads(body)
    broken["system"] = "It is 14:32. " + broken["system"]
    conversations = Conversations()
    remember(conversations, "s", before, CacheCounts(0, given.tokens, 0))
    print(f"{len(body) / 1e6:.1f} MB, {len(whole['messages'])} messages")
    print(f"first   {least_ms(lambda: compare(conversations, 'other', whole)):7.2f} ms")
    print(f"adds    {least_ms(lambda: compare(conversations, 's', whole)):7.2f} ms")
    print(f"breaks  {least_ms(lambda: compare(conversations, 's', broken)):7.2f} ms")
    tracemalloc.start()
    kept = Conversations()
    remember(kept, "s", whole, CacheCounts(0, given.tokens, 0))
    held, _ = tracemalloc.get_traced_memory()
    print(f"memory  {held / 1e6:7.2f} MB of a session; taken for {kept.bytes / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

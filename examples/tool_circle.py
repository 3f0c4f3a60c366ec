"""Notice that an agent makes the same call with the same result again, before it has cost a fortune."""

import json
from itertools import count

from millgate.guard.tools import check

messages: list[dict[str, object]] = [{"role": "user", "content": "Make the tests pass."}]
for turn in count(1):
    name, arguments = "run_tests", json.dumps({"path": "tests"})  # what the model asks for
    call = {"id": str(turn), "type": "function", "function": {"name": name, "arguments": arguments}}
    messages.append({"role": "assistant", "tool_calls": [call]})
    took = f"3 failed in 0.{turn}s"  # durations are ignored: it is the same result
    messages.append({"role": "tool", "tool_call_id": str(turn), "content": took})
    if circle := check(messages):
        print(f"after {turn} calls: {circle.describe()}")
        break

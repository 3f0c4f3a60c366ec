"""An agent loop whose recall follows its window: a free window gets much context, a full one none; nothing twice."""

from millgate import ContextBudget, Millgate

NOTES = [
    {"id": "deploy", "text": "Deploys go out on Tuesdays, after the smoke tests of staging."},
    {"id": "rollback", "text": "To roll back, run `ship revert` with the number of the release."},
    {"id": "oncall", "text": "Whoever is on call answers pages within ten minutes."},
]
# a question, and how many tokens of its window the agent had used before it
TURNS = [
    ("when do deploys go out?", 1_000),
    ("and how do I roll back a release?", 5_000),
    ("who answers pages?", 7_900),
]

with Millgate.open(":memory:") as gate:
    gate.add(NOTES)
    messages: list[dict[str, str]] = []
    for question, used in TURNS:
        window_size = ContextBudget(context_length=8_000, used_tokens=used)
        context = gate.context(question, window=messages, budget=400, context_budget=window_size)
        messages += [*context.as_messages(), {"role": "user", "content": question}]
        messages.append({"role": "assistant", "content": "(here you call your model)"})
        print(
            f"{window_size.pressure:.0%} full: {context.token_estimate} tokens, {context.sources}"
        )

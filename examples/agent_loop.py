"""An agent loop whose recall follows the pressure of its window: much room, much context; no room, none."""

from headgate import ContextBudget, Headgate

NOTES = [
    {"id": "deploy", "text": "Deploys go out on Tuesdays, after the smoke tests of staging."},
    {"id": "rollback", "text": "To roll back, run `ship revert` with the number of the release."},
    {"id": "oncall", "text": "Whoever is on call answers pages within ten minutes."},
]
QUESTIONS = ["when do deploys go out?", "how do I roll back a release?", "who answers pages?"]

with Headgate.open(":memory:") as hg:
    hg.add(NOTES)
    messages: list[dict[str, str]] = []
    for question, used in zip(QUESTIONS, (1_000, 5_000, 7_900), strict=True):
        window = ContextBudget(context_length=8_000, used_tokens=used)
        context = hg.context(question, window=messages, budget=400, context_budget=window)
        messages += [*context.as_messages(), {"role": "user", "content": question}]
        print(
            f"{window.pressure:.0%} full: {context.token_estimate} tokens from {list(context.sources)}"
        )
        messages.append({"role": "assistant", "content": "(the model's answer)"})

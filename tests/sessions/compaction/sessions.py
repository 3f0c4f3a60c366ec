"""A long session of an agent, written out, and what each agent's compaction makes of its window."""

from bench.fixtures.compactions import FORMS, summarize

INSTRUCTIONS = "You are a careful engineer. You work in the folder of the person who asks you. " * 5
FILLER = "The module keeps its rows in a table and reads them page by page, oldest first. "


def session(
    steps=30, *, rule="Never touch db/migrations, ask me before you change it.", topic="app"
):
    """A conversation of chat messages: a person's task and rule, then the model's calls and their results."""
    messages = [
        {
            "role": "user",
            "content": f"Make the import faster. {rule} The limit is 4375 rows a page.",
        }
    ]
    for n in range(steps):
        path = f"src/{topic}/module_{n}.py"
        call = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
        messages += [
            {
                "role": "assistant",
                "content": f"I read {path} to see how load_page_{n} works.",
                "tool_calls": [{"id": f"call{n}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call{n}", "content": f"def load_page_{n}():\n" + FILLER * 8},
        ]  # fmt: skip
    return messages


def compact(messages, form="claude", summary=None):
    """The window after a compaction in this form."""
    return FORMS[form](messages, summarize(messages) if summary is None else summary)

"""What `headgate demo` shows of the window: the project's own documentation, and three questions about it.

Each question is asked twice. What the first answer gave best is in the window when it is asked again, as it would be
one turn later, and must not come a second time.
"""

from dataclasses import dataclass
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import headgate
from headgate.errors import NotFound
from headgate.gateway import Headgate
from headgate.ingest.load import Summary
from headgate.types import Chunk, Context

QUESTIONS = (
    "How are loops stopped, and will a good answer be cut?",
    "Does it need a server, a vector database or a model?",
    "Does injected context break my prompt cache?",
)
BUDGET = 500
PAGE = "faq.md"  # read beside the README, which every installation has; pyproject.toml puts it into the package


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A question, what of the answer was in the window already, and what came."""

    question: str
    seen: tuple[Chunk, ...]
    context: Context


def add_docs(gate: Headgate) -> Summary:
    """Add the README and the documentation that comes with the package."""
    page = (_docs() / PAGE).read_text(encoding="utf-8")
    readme = {"id": "README.md", "text": metadata("headgate")["Description"]}
    return gate.add([readme, {"id": f"docs/{PAGE}", "text": page}])


def ask(gate: Headgate, question: str) -> DemoAnswer:
    """Ask a question with the best of its first answer in the window."""
    first = gate.context(question, budget=BUDGET)
    seen = first.chunks[:1]
    window = [{"role": "user", "content": question}] + [{"role": "tool", "content": chunk.text} for chunk in seen]  # fmt: skip
    return DemoAnswer(question, seen, gate.context(question, window=window, budget=BUDGET))


def _docs() -> Path:
    """The folder of the documentation: in the package where it was installed, beside it in a checkout."""
    shipped = Path(str(files(headgate) / "docs"))
    beside = Path(headgate.__file__).parents[2] / "docs"
    for folder in (shipped, beside):
        if folder.is_dir():
            return folder
    raise NotFound("the documentation is not installed", hint="pip install --force-reinstall headgate")  # fmt: skip

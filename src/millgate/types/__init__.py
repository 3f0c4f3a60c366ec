"""The nouns: frozen values that the stages hand to each other.

A Chunk is a piece of text and never changes. A Candidate is a chunk with a score and the notes of what
happened to it (notes.py). A stage returns Sifted: what it kept, dropped and added.
Scores are 0..1 where they end, higher is better; budgets are tokens; times are seconds since the epoch.
"""

from millgate.types.accounts import Amount, Key, Scope, Secret, Spend, SpendScope
from millgate.types.candidates import Candidate, Sifted
from millgate.types.chunks import (
    GRAPH,
    MEMORY,
    SIDE_SHARE,
    SIDE_SOURCES,
    TURN,
    WEB,
    Attachment,
    Change,
    Chunk,
    Document,
    Size,
)
from millgate.types.context import Context, Report
from millgate.types.knowledge import (
    Edge,
    Fact,
    FactChange,
    Record,
    Review,
    ReviewStatus,
    TrustChange,
    fact_key,
    node_key,
)
from millgate.types.lengths import METADATA_BYTES, TITLE_CHARS
from millgate.types.plan import ContextBudget, Plan, Strategy, Tier
from millgate.types.request import Request
from millgate.types.trace import SAVED_TOKENS, CallCost, FoldUse, Step, Trace, TraceSummary
from millgate.types.window import Window, WindowLike

__all__ = [
    "GRAPH",
    "MEMORY",
    "METADATA_BYTES",
    "SAVED_TOKENS",
    "SIDE_SHARE",
    "SIDE_SOURCES",
    "TITLE_CHARS",
    "TURN",
    "WEB",
    "Amount",
    "Attachment",
    "CallCost",
    "Candidate",
    "Change",
    "Chunk",
    "Context",
    "ContextBudget",
    "Document",
    "Edge",
    "Fact",
    "FactChange",
    "FoldUse",
    "Key",
    "Plan",
    "Record",
    "Report",
    "Request",
    "Review",
    "ReviewStatus",
    "Scope",
    "Secret",
    "Sifted",
    "Size",
    "Spend",
    "SpendScope",
    "Step",
    "Strategy",
    "Tier",
    "Trace",
    "TraceSummary",
    "TrustChange",
    "Window",
    "WindowLike",
    "fact_key",
    "node_key",
]

"""The settings of a Headgate: arguments before the environment, `headgate.toml` and defaults.

For example: `Headgate.open("./kb", settings=Settings(retrieve=RetrievePolicy(k1=1.5)))`. The page of settings says what
each of them does.

`Settings` (schema.py) joins the policies of all stages with those of stores, models and the service. The package reads
files and variables and checks them; it knows the policies, and opens nothing. Wiring builds the parts from it.
Start with schema.py, then load.py, which says where a value comes from.
"""

from headgate.graph.kernel import SlicePolicy
from headgate.graph.knowledge import GraphPolicy
from headgate.guard.fuse import FusePolicy
from headgate.guard.policy import CirclesPolicy, GuardPolicy
from headgate.ingest.policy import IngestPolicy
from headgate.memory.facts import FactsPolicy
from headgate.memory.provider_pool import RecallPolicy
from headgate.memory.review import ReviewPolicy
from headgate.models.answer import AskPolicy
from headgate.models.embed import EmbedPolicy
from headgate.models.grade import GraderPolicy
from headgate.models.search import SearchPolicy
from headgate.policy import (
    IndexPolicy,
    Limits,
    LogPolicy,
    ProxyPolicy,
    ServicePolicy,
    TracePolicy,
)
from headgate.prices import Price
from headgate.settings.load import load, settings_file, with_changes
from headgate.settings.schema import Settings
from headgate.settings.show import Inspection, Setting, inspect, page
from headgate.stages.compose import ComposePolicy
from headgate.stages.decide import DecidePolicy
from headgate.stages.expand import ExpandPolicy
from headgate.stages.gate import GatePolicy
from headgate.stages.grade import GradePolicy
from headgate.stages.penalize import PenalizePolicy
from headgate.stages.propagate import PropagatePolicy
from headgate.stages.retrieve import RetrievePolicy

__all__ = [
    "AskPolicy",
    "CirclesPolicy",
    "ComposePolicy",
    "DecidePolicy",
    "EmbedPolicy",
    "ExpandPolicy",
    "FactsPolicy",
    "FusePolicy",
    "GatePolicy",
    "GradePolicy",
    "GraderPolicy",
    "GraphPolicy",
    "GuardPolicy",
    "IndexPolicy",
    "IngestPolicy",
    "Inspection",
    "Limits",
    "LogPolicy",
    "PenalizePolicy",
    "Price",
    "PropagatePolicy",
    "ProxyPolicy",
    "RecallPolicy",
    "RetrievePolicy",
    "ReviewPolicy",
    "SearchPolicy",
    "ServicePolicy",
    "Setting",
    "Settings",
    "SlicePolicy",
    "TracePolicy",
    "inspect",
    "load",
    "page",
    "settings_file",
    "with_changes",
]

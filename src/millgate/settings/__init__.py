"""The settings of a Millgate: arguments before the environment, `millgate.toml` and defaults.

For example: `Millgate.open("./kb", settings=Settings(retrieve=RetrievePolicy(k1=1.5)))`. The page of settings says what
each of them does.

`Settings` (schema.py) joins the policies of all stages with those of stores, models and the service. The package reads
files and variables and checks them; it knows the policies, and opens nothing. Wiring builds the parts from it.
Start with schema.py, then load.py, which says where a value comes from.
"""

from millgate.circles.policy import CirclesPolicy
from millgate.guard.policy import GuardPolicy
from millgate.ingest.policy import IngestPolicy
from millgate.knowledge.facts import FactsPolicy
from millgate.knowledge.paths import GraphPolicy
from millgate.knowledge.providers import RecallPolicy
from millgate.knowledge.review import ReviewPolicy
from millgate.knowledge.slices import SlicePolicy
from millgate.models.answer import AskPolicy
from millgate.models.embed import EmbedPolicy
from millgate.models.grade import GraderPolicy
from millgate.models.search import SearchPolicy
from millgate.pipeline.stages.compose import ComposePolicy
from millgate.pipeline.stages.decide import DecidePolicy
from millgate.pipeline.stages.expand import ExpandPolicy
from millgate.pipeline.stages.gate import GatePolicy
from millgate.pipeline.stages.grade import GradePolicy
from millgate.pipeline.stages.penalize import PenalizePolicy
from millgate.pipeline.stages.propagate import PropagatePolicy
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.settings.load import (
    Inspection,
    Setting,
    inspect,
    load,
    settings_file,
    with_changes,
)
from millgate.settings.schema import Settings
from millgate.spending.prices import Price
from millgate.spending.spending import FusePolicy
from millgate.types.policy import (
    IndexPolicy,
    Limits,
    LogPolicy,
    ProxyPolicy,
    ServicePolicy,
    TracePolicy,
)

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
    "settings_file",
    "with_changes",
]

"""The tools of the memory that agents know from hermes-agent: fact_store, fact_feedback, context_strategy.

Their names, actions and parameters are those that its agents were taught. Results are JSON; what is wrong with a call
comes back as {"error": ...}, so that the model may try again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from millgate.errors import InputError, MillgateError
from millgate.gateway import Millgate
from millgate.pipeline.stages.strategy import CONTEXT_STRATEGY_TOOL, context_strategy
from millgate.types import Fact

Arguments = Mapping[str, Any]

_FACT_STORE = {
    "name": "fact_store",
    "description": (
        "Facts that last beyond this conversation. add: keep one. search: by words. probe: all about one name. "
        "related: about names that stand beside it. reason: facts that name all of several. "
        "contradict: pairs about one name, for you to compare. update, remove, list: look after them. "
        "Look here before you answer questions about the user or their projects."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": [
                    "add", "search", "probe", "related", "reason", "contradict", "update", "remove", "list",
                ],
            },
            "content": {"type": "string", "description": "The fact, for add and update."},
            "query": {"type": "string", "description": "What to look for, for search."},
            "entity": {"type": "string", "description": "A name, for probe and related."},
            "entities": {"type": "array", "items": {"type": "string"}, "description": "Names, for reason."},
            "fact_id": {"type": "string", "description": "Which fact, for update and remove."},
            "category": {"type": "string", "description": "user_pref, project, tool or general."},
            "tags": {"type": "string", "description": "Tags, separated by commas."},
            "trust_delta": {"type": "number", "description": "How much to move the trust, for update."},
            "min_trust": {"type": "number", "description": "Least trust of what is found."},
            "limit": {"type": "integer", "description": "Most facts to give; 10 unless said."},
        },
        "required": ["action"],
    },
}  # fmt: skip

_FACT_FEEDBACK = {
    "name": "fact_feedback",
    "description": "Rate a fact after using it: helpful if it was right, unhelpful if it was wrong or out of date.",
    "parameters": {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["helpful", "unhelpful"]},
            "fact_id": {"type": "string", "description": "Which fact."},
        },
        "required": ["action", "fact_id"],
    },
}

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "fact_store": _FACT_STORE,
    "fact_feedback": _FACT_FEEDBACK,
    "context_strategy": CONTEXT_STRATEGY_TOOL,
}


def call(gate: Millgate, name: str, args: Arguments) -> str:
    """The result of a tool call, as JSON."""
    if name == "context_strategy":
        return choose_strategy(args)
    return _as_json(lambda: _use(gate, name, args))


def choose_strategy(args: Arguments, **_told: Any) -> str:
    """`context_strategy`: how content should reach the model."""
    return _as_json(lambda: context_strategy(**args))


def _as_json(work: Callable[[], object]) -> str:
    try:
        return orjson.dumps(work()).decode()
    except KeyError as error:
        return orjson.dumps({"error": f"{error.args[0]} is missing"}).decode()
    except (MillgateError, TypeError, ValueError) as error:
        return orjson.dumps({"error": str(error)}).decode()


def _use(gate: Millgate, name: str, args: Arguments) -> object:
    if name not in TOOLS:
        raise InputError(f"there is no tool {name!r}")
    action = args["action"]
    allowed = TOOLS[name]["parameters"]["properties"]["action"]["enum"]
    if action not in allowed:
        raise InputError(f"action is {action!r}", hint=f"use one of: {', '.join(allowed)}")
    if name == "fact_feedback":
        rated = gate.feedback(str(args["fact_id"]), helpful=action == "helpful")
        return {"fact_id": rated.id, "old_trust": rated.old, "new_trust": rated.new}
    if action in ("add", "update", "remove"):
        return _change(gate, action, args)
    most = max(1, int(args.get("limit") or 10))
    if action == "contradict":
        found = [
            {"fact": _row(fact), "other": _row(other)}
            for fact in _facts(gate, args)
            for other in gate.facts.similar(fact)
            if fact.id < other.id and _names(fact) & _names(other)
        ]
    else:
        found = [_row(fact) for fact in _find(gate, action, args, most)]
    return {"results": found[:most], "count": len(found[:most])}


def _change(gate: Millgate, action: str, args: Arguments) -> object:
    tags = [tag.strip() for tag in str(args.get("tags") or "").split(",") if tag.strip()]
    if action == "add":
        category = args.get("category") or "general"
        added = gate.remember(args["content"], category=category, tags=tags)
        status = "echo" if added.repeats_injected_text else "added" if added.new else "known"
        return {"fact_id": added.fact.id, "status": status}
    id = str(args["fact_id"])
    if action == "remove":
        gate.facts.forget(id)
        return {"removed": True}
    trust, delta = None, args.get("trust_delta")
    if delta is not None:
        trust = min(1.0, max(0.0, gate.facts.get(id).trust + float(delta)))
    changed = gate.facts.update(
        id,
        content=args.get("content"),
        category=args.get("category"),
        tags=tags if "tags" in args else None,
        trust=trust,
    )
    return {"updated": True, "fact": _row(changed)}


def _find(gate: Millgate, action: str, args: Arguments, most: int) -> Sequence[Fact]:
    """The facts that an action looks for, the best or the most trusted first."""
    if action == "search":
        least = args.get("min_trust")
        given = None if least is None else float(least)
        hits = gate.recall(args["query"], limit=most, min_trust=given)
        return [hit.fact for hit in hits if args.get("category") in (None, hit.fact.category)]
    facts = _facts(gate, args)
    if action == "list":
        return facts
    asked = args["entities"] if action == "reason" else [args["entity"]]
    names = {name.lower() for name in asked}
    naming = [fact for fact in facts if names and names <= _names(fact)]
    if action != "related":  # probe: all about one name; reason: those that name all of several
        return naming
    beside = {name for fact in naming for name in _names(fact)} - names
    return [fact for fact in facts if beside & _names(fact) and not names & _names(fact)]


def _facts(gate: Millgate, args: Arguments) -> list[Fact]:
    return gate.facts.all(
        category=args.get("category"), min_trust=float(args.get("min_trust") or 0)
    )


def _names(fact: Fact) -> set[str]:
    return {name.lower() for name in fact.entities}


def _row(fact: Fact) -> dict[str, Any]:
    return {
        "fact_id": fact.id, "content": fact.content, "category": fact.category,
        "tags": list(fact.tags), "entities": list(fact.entities), "trust": fact.trust,
    }  # fmt: skip

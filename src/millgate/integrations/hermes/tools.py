"""The tools of the memory that agents know from hermes-agent: fact_store, fact_feedback, context_strategy.

Their names, actions and parameters are those that its agents were taught. Results are JSON; what is wrong with a call
comes back as {"error": ...}, so that the model may try again.
"""

from collections.abc import Callable, Mapping
from functools import partial
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
    if name == "fact_feedback":
        return _as_json(partial(_rate, gate, args))
    if name == "fact_store":
        return _as_json(partial(_use_facts, gate, args))
    return _as_json(partial(_refuse, f"there is no tool {name!r}"))


def choose_strategy(args: Arguments, **_told: Any) -> str:
    """`context_strategy`: how content should reach the model."""
    return _as_json(lambda: context_strategy(**args))


def _as_json(work: Callable[[], object]) -> str:
    try:
        return orjson.dumps(work()).decode()
    except MillgateError as error:
        return orjson.dumps({"error": str(error)}).decode()
    except KeyError as error:
        return orjson.dumps({"error": f"{error.args[0]} is missing"}).decode()
    except (TypeError, ValueError) as error:
        return orjson.dumps({"error": str(error)}).decode()


def _refuse(message: str) -> object:
    raise InputError(message)


def _rate(gate: Millgate, args: Arguments) -> object:
    ratings = {"helpful": True, "unhelpful": False}
    if args["action"] not in ratings:
        raise InputError(f"action is {args['action']!r}", hint="use helpful or unhelpful")
    rated = gate.feedback(str(args["fact_id"]), helpful=ratings[args["action"]])
    return {"fact_id": rated.id, "old_trust": rated.old, "new_trust": rated.new}


def _use_facts(gate: Millgate, args: Arguments) -> object:
    action = args["action"]
    if action not in _ACTIONS:
        raise InputError(f"action is {action!r}", hint=f"use one of: {', '.join(_ACTIONS)}")
    return _ACTIONS[action](gate, args)


def _add(gate: Millgate, args: Arguments) -> object:
    added = gate.remember(
        args["content"], category=args.get("category") or "general", tags=_tags(args)
    )
    status = "echo" if added.repeats_injected_text else "added" if added.new else "known"
    return {"fact_id": added.fact.id, "status": status}


def _search(gate: Millgate, args: Arguments) -> object:
    least = args.get("min_trust")
    hits = gate.recall(
        args["query"], limit=_limit(args), min_trust=None if least is None else float(least)
    )
    return _results([hit.fact for hit in hits if args.get("category") in (None, hit.fact.category)])


def _probe(gate: Millgate, args: Arguments) -> object:
    return _results(_naming(gate, args, {args["entity"].lower()}))


def _relate(gate: Millgate, args: Arguments) -> object:
    name = args["entity"].lower()
    beside = {n.lower() for fact in _naming(gate, args, {name}) for n in fact.entities} - {name}
    found = [f for f in _facts(gate, args) if beside & _names(f) and name not in _names(f)]
    return _results(found[: _limit(args)])


def _reason(gate: Millgate, args: Arguments) -> object:
    return _results(_naming(gate, args, {name.lower() for name in args["entities"]}))


def _contradict(gate: Millgate, args: Arguments) -> object:
    found = [
        {"fact": _row(fact), "other": _row(other)}
        for fact in _facts(gate, args)
        for other in gate.facts.similar(fact)
        if fact.id < other.id and _names(fact) & _names(other)
    ]
    return {"results": found[: _limit(args)], "count": len(found)}


def _update(gate: Millgate, args: Arguments) -> object:
    id, delta = str(args["fact_id"]), args.get("trust_delta")
    trust = None
    if delta is not None:
        trust = min(1.0, max(0.0, gate.facts.get(id).trust + float(delta)))
    tags = _tags(args) if "tags" in args else None
    changed = gate.facts.update(
        id, content=args.get("content"), category=args.get("category"), tags=tags, trust=trust
    )
    return {"updated": True, "fact": _row(changed)}


def _remove(gate: Millgate, args: Arguments) -> object:
    gate.facts.forget(str(args["fact_id"]))
    return {"removed": True}


def _list(gate: Millgate, args: Arguments) -> object:
    return _results(_facts(gate, args)[: _limit(args)])


_ACTIONS: Mapping[str, Callable[[Millgate, Arguments], object]] = {
    "add": _add,
    "search": _search,
    "probe": _probe,
    "related": _relate,
    "reason": _reason,
    "contradict": _contradict,
    "update": _update,
    "remove": _remove,
    "list": _list,
}


def _facts(gate: Millgate, args: Arguments) -> list[Fact]:
    return gate.facts.all(
        category=args.get("category"), min_trust=float(args.get("min_trust") or 0)
    )


def _naming(gate: Millgate, args: Arguments, names: set[str]) -> list[Fact]:
    """The facts that name all of these, the most trusted first."""
    found = [fact for fact in _facts(gate, args) if names and names <= _names(fact)]
    return found[: _limit(args)]


def _names(fact: Fact) -> set[str]:
    return {name.lower() for name in fact.entities}


def _results(facts: list[Fact]) -> object:
    return {"results": [_row(fact) for fact in facts], "count": len(facts)}


def _row(fact: Fact) -> dict[str, Any]:
    return {
        "fact_id": fact.id, "content": fact.content, "category": fact.category,
        "tags": list(fact.tags), "entities": list(fact.entities), "trust": fact.trust,
    }  # fmt: skip


def _tags(args: Arguments) -> list[str]:
    return [tag.strip() for tag in str(args.get("tags") or "").split(",") if tag.strip()]


def _limit(args: Arguments) -> int:
    return max(1, int(args.get("limit") or 10))

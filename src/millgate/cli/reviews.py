"""`millgate reviews`: the questions that wait for a person, and what that person decides."""

import getpass
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from millgate.cli.options import CommandGroup, Output, on_store
from millgate.cli.terminal import echo, format_minute, table_of
from millgate.gateway import Millgate
from millgate.knowledge.review import Decision
from millgate.types import Review

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=CommandGroup)
def reviews() -> None:
    """Answer, approve or reject the questions that wait for a person."""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user id, as in some containers
        return "somebody"


def _who(command: F) -> F:
    command = click.option("--note", default="", help="Why it was decided so.")(command)
    return click.option("--who", default=_user, help="Who decides (default: your user name).")(command)  # fmt: skip


@reviews.command("list", epilog="Example: millgate reviews list --status all")
@click.option(
    "--status",
    type=click.Choice(["pending", "answered", "approved", "rejected", "expired", "all"]),
    default="pending",
    show_default=True,
    help="Only questions in this state.",
)
@on_store
def list_reviews(gate: Millgate, status: str) -> Output:
    """List the questions that wait, oldest first."""
    found = [r for r in gate.reviews.reviews() if status in ("all", r.status)]
    rows = [(r.id, r.status, format_minute(r.created), r.query, r.reason) for r in found]
    heads = ("id", "status", "asked", "question", "why")
    return Output(found, table_of(*heads, rows=rows, empty="nothing is waiting"))


@reviews.command("show", epilog="Example: millgate reviews show ID")
@click.argument("id")
@on_store
def show_review(gate: Millgate, id: str) -> Output:
    """Show the question ID with the chunks that were found for it."""
    one = gate.reviews.review(id)
    return Output(one, describe_review(one))


@reviews.command("answer", epilog="Example: millgate reviews answer ID 'Under the mat.'")
@click.argument("id")
@click.argument("text")
@_who
@click.option("--yes", is_flag=True, help="Store the fact without showing it first.")
@on_store
def answer_review(gate: Millgate, id: str, text: str, yes: bool, **by: str) -> Output:
    """Answer the question ID with TEXT. The answer becomes a trusted fact, which you see before it is stored."""
    queue = gate.reviews
    draft = queue.draft(id, text)
    if not yes and sys.stdin.isatty():
        echo(f"question: {queue.review(id).query}")
        echo(f"fact:     {draft.content}")
        echo(f"found by: {', '.join(draft.tags[1:])}")
        click.confirm(f"Store it with trust {draft.trust:.2f}?", abort=True)
    return _describe_decision(queue.answer(id, text, confirmed=draft.content, **by))


@reviews.command("approve", epilog="Example: millgate reviews approve ID")
@click.argument("id")
@_who
@on_store
def approve_review(gate: Millgate, id: str, **by: str) -> Output:
    """Say that the chunks found for the question ID are right."""
    return _describe_decision(gate.reviews.approve(id, **by))


@reviews.command("reject", epilog="Example: millgate reviews reject ID --note 'old price list'")
@click.argument("id")
@_who
@on_store
def reject_review(gate: Millgate, id: str, **by: str) -> Output:
    """Say that the chunks found for the question ID are wrong."""
    return _describe_decision(gate.reviews.reject(id, **by))


def _describe_decision(decision: Decision) -> Output:
    lines = [f"{decision.review.id} is {decision.review.status}"]
    if decision.fact:
        lines.append(f"remembered as fact {decision.fact.id}, trust {decision.fact.trust:.2f}")
    lines += [f"trust of fact {m.id}: {m.old:.2f} -> {m.new:.2f}" for m in decision.feedback]
    return Output(decision, "\n".join(lines))


def describe_review(one: Review) -> str:
    """One question, what was found for it, and what was decided, in lines."""
    lines = [
        f"{one.id}  {one.status}  asked {format_minute(one.created)}, expires {format_minute(one.expires)}",
        f"question: {one.query}",
        f"why: {one.reason}",
        *(f"  {grade:.2f}  {id}" for id, grade in sorted(one.grades.items(), key=lambda g: -g[1])),
    ]
    if one.decided:
        who = one.who or "an unknown person"
        lines.append(f"{one.status} {format_minute(one.decided)} by {who}: {one.answer or one.note}")  # fmt: skip
    return "\n".join(lines)

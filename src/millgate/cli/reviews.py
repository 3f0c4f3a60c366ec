"""`millgate reviews`: the questions that wait for a person, and what that person decides."""

import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import click
from rich.markup import escape
from rich.table import Table

from millgate.cli.command_group import CommandGroup
from millgate.cli.console import SafeConsole
from millgate.cli.options import json_option, open_existing, place_options, print_json
from millgate.cli.terminal import echo, format_minute
from millgate.knowledge.review import Decision, ReviewQueue
from millgate.types import Review

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=CommandGroup)
def reviews() -> None:
    """Answer, approve or reject the questions that wait for a person."""


def _who(command: F) -> F:
    command = click.option("--note", default="", help="Why it was decided so.")(command)
    return click.option("--who", help="Who decides (default: your user name).")(command)


@contextmanager
def _queue(store: str | None, tenant: str | None) -> Iterator[ReviewQueue]:
    with open_existing(store, tenant) as hg:
        yield hg.reviews


@reviews.command("list", epilog="Example: millgate reviews list --status all")
@place_options
@click.option(
    "--status",
    type=click.Choice(["pending", "answered", "approved", "rejected", "expired", "all"]),
    default="pending",
    show_default=True,
    help="Only questions in this state.",
)
@json_option
def list_reviews(store: str | None, tenant: str | None, status: str, as_json: bool) -> None:
    """List the questions that wait, oldest first."""
    with _queue(store, tenant) as queue:
        found = [r for r in queue.reviews() if status in ("all", r.status)]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    table = Table("id", "status", "asked", "question", "why", box=None, pad_edge=False)
    for one in found:
        table.add_row(one.id, one.status, format_minute(one.created), escape(one.query), one.reason)
    SafeConsole().print(table if found else "nothing is waiting")


@reviews.command("show", epilog="Example: millgate reviews show ID")
@click.argument("id")
@place_options
@json_option
def show_review(id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show the question ID with the chunks that were found for it."""
    with _queue(store, tenant) as queue:
        one = queue.review(id)
    if as_json:
        print_json(asdict(one))
    else:
        print_review(one)


@reviews.command("answer", epilog="Example: millgate reviews answer ID 'Under the mat.'")
@click.argument("id")
@click.argument("text")
@place_options
@_who
@click.option("--yes", is_flag=True, help="Store the fact without showing it first.")
@json_option
def answer_review(
    id: str,
    text: str,
    store: str | None,
    tenant: str | None,
    who: str | None,
    note: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Answer the question ID with TEXT. The answer becomes a trusted fact, which you see before it is stored."""
    with _queue(store, tenant) as queue:
        draft = queue.draft(id, text)
        if not yes and sys.stdin.isatty():
            echo(f"question: {queue.review(id).query}")
            echo(f"fact:     {draft.content}")
            echo(f"found by: {', '.join(draft.tags[1:])}")
            click.confirm(f"Store it with trust {draft.trust:.2f}?", abort=True)
        decision = queue.answer(id, text, who=who or _user(), note=note, confirmed=draft.content)
        _print_decision(decision, as_json)


@reviews.command("approve", epilog="Example: millgate reviews approve ID")
@click.argument("id")
@place_options
@_who
@json_option
def approve_review(
    id: str, store: str | None, tenant: str | None, who: str | None, note: str, as_json: bool
) -> None:
    """Say that the chunks found for the question ID are right."""
    with _queue(store, tenant) as queue:
        _print_decision(queue.approve(id, who=who or _user(), note=note), as_json)


@reviews.command("reject", epilog="Example: millgate reviews reject ID --note 'old price list'")
@click.argument("id")
@place_options
@_who
@json_option
def reject_review(
    id: str, store: str | None, tenant: str | None, who: str | None, note: str, as_json: bool
) -> None:
    """Say that the chunks found for the question ID are wrong."""
    with _queue(store, tenant) as queue:
        _print_decision(queue.reject(id, who=who or _user(), note=note), as_json)


def _print_decision(decision: Decision, as_json: bool) -> None:
    if as_json:
        print_json(asdict(decision))
        return
    echo(f"{decision.review.id} is {decision.review.status}")
    if decision.fact:
        echo(f"remembered as fact {decision.fact.id}, trust {decision.fact.trust:.2f}")
    for moved in decision.feedback:
        echo(f"trust of fact {moved.id}: {moved.old:.2f} -> {moved.new:.2f}")


def print_review(one: Review) -> None:
    """Print one question, what was found for it, and what was decided."""
    echo(
        f"{one.id}  {one.status}  asked {format_minute(one.created)}, expires {format_minute(one.expires)}"
    )
    echo(f"question: {one.query}")
    echo(f"why: {one.reason}")
    for id, grade in sorted(one.grades.items(), key=lambda item: -item[1]):
        echo(f"  {grade:.2f}  {id}")
    if one.decided:
        echo(
            f"{one.status} {format_minute(one.decided)} by {one.who or 'an unknown person'}: {one.answer or one.note}"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user id, as in some containers
        return "somebody"

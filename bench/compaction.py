"""Compactions: whether each is noticed and none invented, and what it costs to bring back what they lost.

    make bench-compaction ARGS="notice FOLDER"     recorded sessions, and simulated compactions of them: 2 minutes
    make bench-compaction ARGS="recall FOLDER"     facts planted in these sessions, asked for afterwards: 3 minutes

notice: FOLDER holds recorded sessions (Claude Code's transcripts, or a session a line with `messages`). Every pair of
requests that follow each other is compared. Beside these stand pairs that are no compactions: a turn taken back, a turn
edited, a subagent's first request, the first request of another session. Sessions are cut at 10 000, 50 000, 100 000
and 150 000 tokens and compacted in each agent's form.

recall: 200 facts of five kinds (rules, identifiers, numbers, paths, decisions) are planted in 20 of the sessions, in
messages of the person and of the model. The session is compacted, and what left is kept. A question for each fact is
asked in a turn of its own, and questions that need nothing between them. Told are the share of facts that the summary
alone holds, the share that a block of at most 1 000 tokens brings, how often a turn that needs nothing gets none, and
what the blocks cost. A piece repeats the window if more than four fifths of it stand there word for word, and it brings
no word that does not: two facts may differ in the one identifier that matters.
"""

import argparse
import asyncio
import random
import time
from collections import Counter

from bench.fixtures.compactions import FORMS, claude, cuts, read_sessions, summarize, windows
from rich.console import Console
from rich.table import Table

from millgate.gateway import Millgate
from millgate.sessions.compaction.account import account
from millgate.sessions.compaction.keep import MOST_PIECES
from millgate.sessions.compaction.notice import begins_with_summary, notice
from millgate.sessions.compaction.window import Window, read_window
from millgate.spending.prices import Prices
from millgate.text.coverage import WindowIndex
from millgate.text.terms import terms
from millgate.types import Request
from millgate.types import Window as Shown

SIZES = (10_000, 50_000, 100_000, 150_000)


def judge_recorded(sessions):
    """Every two requests that follow each other in every session."""
    found, real, invented, pairs, said = 0, 0, [], 0, []
    for session in sessions:
        read = read_window(session.messages)
        by_place = {message.at: message for message in read.messages}
        last = None
        for messages, compacted, start in windows(session):
            inside = [by_place[at] for at in range(start, start + len(messages)) if at in by_place]
            now = Window(tuple(inside), read.preamble)
            if last is not None:
                pairs += 1
                is_real = last[1] != start and compacted
                real += is_real
                seen = notice(last[0], now)
                if seen and is_real:
                    found += 1
                    said.append((session.name, account(seen, now, turn=last[0].turns)))
                elif seen:
                    invented.append((session.name, seen.way, len(messages)))
            last = now, start
    return found, real, invented, pairs, said


def judge_others(sessions):
    """Pairs of requests that are no compactions: how many there are of each kind, and how many were taken for one."""
    pairs, wrong = Counter(), Counter()
    read = [read_window(session.messages) for session in sessions]
    for number, (_session, window) in enumerate(zip(sessions, read, strict=True)):
        for share in (0.1, 0.3, 0.5, 0.7):
            keep = int(share * len(window.messages))
            back = Window(window.messages[:keep], window.preamble)
            edited = next((m for m in window.messages[keep:] if m.words), window.messages[-1])
            edits = [
                {"role": "user", "content": "No, go back. Do it in another way, please."},
                {"role": "user", "content": f"{edited.words[:3000]}\n\nAnd be quick."},
            ]
            for kind, more in (("taken back", ()), *(("edited", (edit,)) for edit in edits)):
                after = Window((*back.messages, *read_window(more).messages), window.preamble)
                pairs[kind] += 1
                wrong[kind] += notice(window, after) is not None
        for step in (1, 7, 31):
            other = read[(number + step) % len(read)]
            for turns in (1, 3):
                first = Window(other.messages[:turns], other.preamble)
                same = Window(other.messages[:turns], window.preamble)
                pairs["another session"] += 1
                noticed = (
                    notice(window, first, is_same_session=False)
                    if begins_with_summary(first)
                    else None
                )
                wrong["another session"] += noticed is not None
                pairs["another task, same session and agent"] += 1
                wrong["another task, same session and agent"] += notice(window, same) is not None
    return pairs, wrong


def judge_simulated(sessions):
    """Sessions cut at some sizes and compacted in each form: how many there are, and how many were noticed."""
    made, noticed = Counter(), Counter()
    for session in sessions:
        for size, messages in cuts(session.messages, SIZES):
            window, summary = read_window(messages), summarize(messages)
            for name, form in FORMS.items():
                after = read_window(form(messages, summary))
                after = Window(after.messages, window.preamble)
                made[name, size] += 1
                noticed[name, size] += notice(window, after) is not None
                made[f"{name}, new session", size] += 1
                begins = begins_with_summary(after)
                noticed[f"{name}, new session", size] += begins and notice(window, after, is_same_session=False) is not None  # fmt: skip
    return made, noticed


def run_notice(folder):
    console = Console(width=120)
    sessions = read_sessions(folder)
    began = time.perf_counter()
    found, real, invented, pairs, said = judge_recorded(sessions)
    console.print(
        f"{len(sessions)} sessions, {pairs} pairs of requests in {time.perf_counter() - began:.0f} s"
    )
    console.print(
        f"recorded compactions: {found} of {real} noticed, {len(invented)} invented {invented[:10]}"
    )
    for name, told in said:
        console.print(f"  {name[:40]} {told.describe()}", highlight=False)
    pairs, wrong = judge_others(sessions)
    for kind, count in pairs.items():
        console.print(f"{kind}: {wrong[kind]} of {count} taken for a compaction")
    made, noticed = judge_simulated(sessions)
    table = Table("form", *(f"{size:,}" for size in SIZES))
    for name in dict.fromkeys(name for name, _ in made):
        table.add_row(name, *(f"{noticed[name, s]} of {made[name, s]}" for s in SIZES))
    console.print(table)


# Recall

PROJECTS = [
    "Heron",
    "Basalt",
    "Quill",
    "Ember",
    "Tansy",
    "Rook",
    "Larch",
    "Onyx",
    "Pollen",
    "Sable",
]
PARTS = [
    "billing",
    "importer",
    "scheduler",
    "exporter",
    "mailer",
    "search",
    "login",
    "archive",
    "upload",
    "report",
]
IDLE = (
    "Continue.", "Thanks, that looks good.", "Go on with the next step.", "Please run the tests again.", "OK, do it.",
    "What is the capital of Portugal?", "Write a haiku about rain.", "Yes.", "Can you explain that in simpler words?",
    "Commit what you have and push it.",
)  # fmt: skip


def plant(number, drawn):
    """A fact: its kind, the sentence, a question that needs it, and what an answer must name."""
    project, part = PROJECTS[number // 5 % 10], PARTS[number // 5 * 3 % 10]
    id = "".join(drawn.choice("abcdefghkmnpqrstuvwxyz23456789") for _ in range(7))
    match number % 5:
        case 0:
            return "rule", f"Never change the {part} of {project}-{id}.", f"Shall I change the {part} of {project} now?", f"{project}-{id}"  # fmt: skip
        case 1:
            return "identifier", f"The deploy target of {project} for the {part} is srv-{id}.", f"Which deploy target does the {part} of {project} have?", f"srv-{id}"  # fmt: skip
        case 2:
            value = str(drawn.randrange(1_000, 99_999))
            return "number", f"The {part} of {project} may take at most {value} ms.", f"How long may the {part} of {project} take at most?", value  # fmt: skip
        case 3:
            return "path", f"The fixtures of the {project} {part} lie in data/{id}/{part}.json.", f"Where do the fixtures of the {project} {part} lie?", f"data/{id}/{part}.json"  # fmt: skip
    return "decision", f"We decided to use queue-{id} instead of cron for the {part} of {project}.", f"What did we decide to use for the {part} of {project}?", f"queue-{id}"  # fmt: skip


def run_recall(folder, sessions=20, each=10):
    drawn = random.Random(7)
    chosen = [
        cut for s in read_sessions(folder) for size, cut in cuts(s.messages, [10_000, 30_000])
    ]
    chosen = drawn.sample(chosen, sessions)
    asked, held, recalled = Counter(), Counter(), Counter()
    blocks = tokens = idle = quiet = duplicates = shown = 0
    seconds = []
    with Millgate.open(":memory:") as gate:
        for number, messages in enumerate(chosen):
            facts = [plant(number * each + n, drawn) for n in range(each)]
            summary = summarize(messages)
            for kind, sentence, _, _ in facts:
                role = "user" if kind == "rule" or drawn.random() < 0.5 else "assistant"
                messages.insert(
                    drawn.randrange(2, len(messages) - 2), {"role": role, "content": sentence}
                )
            after = read_window(claude(messages, summary))
            found = notice(read_window(messages), after)
            told = account(found, after)
            began = time.perf_counter()
            gate.lost_messages.keep(found.lost, f"s{number}")
            seconds.append(time.perf_counter() - began)
            said = gate.lost_messages.compose_instructions(told, budget=500)
            window = [after.messages[0].words, said]
            tokens += gate.count_tokens(said)
            blocks += bool(said)
            questions = [
                *((fact, fact[2]) for fact in facts),
                *((None, one) for one in drawn.sample(IDLE, 5)),
            ]
            for fact, question in drawn.sample(questions, len(questions)):
                asking = Request(question, window=Shown((*window, question)), collection=f"session:s{number}", budget=1000, k=MOST_PIECES, graph=False)  # fmt: skip
                given = asyncio.run(gate.lost_messages.acontext_for(asking))
                covered = WindowIndex.of(window).coverage(given.texts) if given.texts else ()
                known = set(terms("\n".join(window)))
                duplicates += sum(float(share) > 0.8 and known.issuperset(terms(text)) for share, text in zip(covered, given.texts, strict=True))  # fmt: skip
                shown += len(covered)
                tokens += given.token_estimate
                blocks += bool(given.text)
                window += [given.text, question]
                if fact is None:
                    idle += 1
                    quiet += not given.text
                    continue
                kind, _, _, answer = fact
                asked[kind] += 1
                held[kind] += answer in summary
                recalled[kind] += any(answer in text for text in window[1:])
    console = Console(width=120)
    table = Table("kind", "facts", "in the summary", "recalled")
    for kind in asked:
        table.add_row(
            kind,
            str(asked[kind]),
            f"{held[kind] / asked[kind]:.2f}",
            f"{recalled[kind] / asked[kind]:.2f}",
        )
    table.add_row("all", str(asked.total()), f"{held.total() / asked.total():.2f}", f"{recalled.total() / asked.total():.2f}")  # fmt: skip
    console.print(table)
    console.print(f"turns that need nothing: {quiet} of {idle} got nothing")
    console.print(f"duplicates of the window: {duplicates} of {shown} pieces")
    price = Prices().find("claude-sonnet-4-5")
    money = price.cost(written=tokens) if price else 0
    console.print(f"{blocks} blocks, {tokens / blocks:.0f} tokens each; {tokens:,} tokens, ${money:.2f} written to the cache once at Sonnet's price")  # fmt: skip
    console.print(f"keeping a window took {1000 * sorted(seconds)[len(seconds) // 2]:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("notice", "recall"):
        commands.add_parser(name).add_argument("folder")
    given = parser.parse_args()
    run_notice(given.folder) if given.command == "notice" else run_recall(given.folder)


if __name__ == "__main__":
    main()

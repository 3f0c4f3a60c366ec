"""Compactions: whether each is noticed and none invented, and what it costs to bring back what they lost.

    make bench-compaction ARGS="notice FOLDER"     recorded sessions, and simulated compactions of them: 2 minutes
    make bench-compaction ARGS="recall"            facts planted in sessions, asked for after a compaction: 3 minutes

notice: FOLDER holds recorded sessions (Claude Code's transcripts, or a session a line with `messages`). Every pair of
requests that follow each other is compared. Beside these stand pairs that are no compactions: a turn taken back, a turn
edited, a subagent's first request, the first request of another session. Sessions are cut at 10 000, 50 000, 100 000
and 150 000 tokens and compacted in each agent's form.
"""

import argparse
import time
from collections import Counter

from bench.fixtures.compactions import FORMS, cuts, read_sessions, summarize, windows
from rich.console import Console
from rich.table import Table

from headgate.compaction.account import account
from headgate.compaction.notice import announces_summary, notice
from headgate.compaction.window import Window, read_window

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
            now = Window(tuple(inside), read.instructions)
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
            back = Window(window.messages[:keep], window.instructions)
            edited = next((m for m in window.messages[keep:] if m.words), window.messages[-1])
            edits = [
                {"role": "user", "content": "No, go back. Do it in another way, please."},
                {"role": "user", "content": f"{edited.words[:3000]}\n\nAnd be quick."},
            ]
            for kind, more in (("taken back", ()), *(("edited", (edit,)) for edit in edits)):
                after = Window((*back.messages, *read_window(more).messages), window.instructions)
                pairs[kind] += 1
                wrong[kind] += notice(window, after) is not None
        for step in (1, 7, 31):
            other = read[(number + step) % len(read)]
            for turns in (1, 3):
                first = Window(other.messages[:turns], other.instructions)
                same = Window(other.messages[:turns], window.instructions)
                pairs["another session"] += 1
                noticed = (
                    notice(window, first, is_same_session=False)
                    if announces_summary(first)
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
                after = Window(after.messages, window.instructions)
                made[name, size] += 1
                noticed[name, size] += notice(window, after) is not None
                made[f"{name}, new session", size] += 1
                begins = announces_summary(after)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("notice").add_argument("folder")
    given = parser.parse_args()
    run_notice(given.folder)


if __name__ == "__main__":
    main()

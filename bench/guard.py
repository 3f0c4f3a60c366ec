"""The loop detector: on labeled streams, collected answers, clean and hostile text, and over very long streams.

    make bench-guard                                     clean and hostile text, growth: 5 minutes
    make bench-guard ARGS="streams FILE"                 labeled streams, and the published entropy rule: 2 minutes
    make bench-guard ARGS="answers DIR"                  collected answers: what is cut, and whether it loops
    make bench-guard ARGS="clean DIR ..."                clean text in other folders: stalls alone
    make bench-guard ARGS="honest"                       texts that repeat by their nature: seconds
    make bench-guard ARGS="long"                         1 GB through the whole guard: memory, 5 minutes

FILE has labeled streams as `millgate eval guard` reads them, DIR files named model_outputs.json or lines of
{"text": ...}. Growth compares with what people write first: a regular expression for three copies at the end, after
every tenth chunk. Times are CPU time. How a real model goes on after a cut: `make bench-recovery`.
"""

import argparse
import json
import random
import re
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.fixtures.answers import WatchedAnswer, evaluate_answers, read_answers
from bench.fixtures.clean_texts import FOUND, corpus, gather, generate
from bench.fixtures.honest_texts import texts as honest_texts
from rich.console import Console
from rich.table import Table

from millgate.evaluate.guard import LabeledStream, evaluate, percentile, read
from millgate.guard import (
    CONTENT,
    TOOL,
    CountingDetector,
    EntropyDetector,
    Guard,
    Piece,
    RepeatDetector,
    StreamMachine,
)

out = Console(width=130)
TOKEN, BLOCK = 4, 4096  # characters a chunk
THREE_COPIES = re.compile(r"(.{20,400})\1\1$", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("streams", "answers", "clean", "hostile", "growth", "honest", "long"))  # fmt: skip
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument(
        "--show", action="store_true", help="with answers: print those that were cut and go on"
    )
    given = parser.parse_args()
    if given.part in ("streams", "answers") and len(given.paths) != 1:
        parser.error(f"{given.part} needs a file or a folder")
    if given.part is None:
        clean([])
        hostile()
        growth()
    elif given.part == "streams":
        labeled(given.paths[0])
    elif given.part == "answers":
        collected(given.paths[0], given.show)
    else:
        parts = {"clean": lambda: clean(given.paths), "hostile": hostile, "growth": growth, "honest": honest, "long": long}  # fmt: skip
        parts[given.part]()


def labeled(path: Path) -> None:
    """The detectors on labeled streams."""
    streams = list(read(path))
    ours, published = evaluate(streams), evaluate(streams, EntropyDetector)
    reaches = [reach for stream in streams if (reach := reach_of(stream)) is not None]
    excess = percentile(
        [delay for stream in streams if (delay := excess_of(stream)) is not None], 50
    )
    table = Table(
        "", "repeat (default)", "entropy (published)", "bar", title=f"streams of {path.name}"
    )

    def row(name: str, figure: Callable[[dict[str, float]], str], bar: str) -> None:
        table.add_row(name, figure(ours), figure(published), bar)

    row("loops found", lambda f: share(f["found"], f["loops"]), "≥ 97 %")
    row("... at the loop itself", lambda f: share(f["found_at_loop"], f["loops"]), "")
    row("loops ≥ 300 characters", lambda f: share(f["found_long"], f["long"]), "≥ 99.5 %")
    row("clean answers cut", lambda f: share(f["clean_cut"], f["clean"]), "0")
    row("onset error, largest", lambda f: f"{f['onset_error_max']:g}", "0")
    row("delay, median / p95", lambda f: f"{f['delay_chars_p50']:g} / {f['delay_chars_p95']:g}", "")
    table.add_row("delay beyond 3.2 p + 64, median", f"{excess:.0f}", "", "≤ 0")
    row("passing repetitions cut", lambda f: share(f["mid_cut"], f["mid"]), "≤ 50 %")
    in_time = share(sum(reach <= 1.3 for reach in reaches), len(reaches))
    table.add_row("loops p ≥ 40 held by 1.3 p", in_time, "", "≥ 93 %")
    row("clean streams ever held", lambda f: share(f["held"], f["clean"]), "≤ 10 %")
    row("clean characters held", lambda f: share(f["held_chars"], f["clean_chars"]), "≤ 0.5 %")
    row("counting loops warned of", lambda f: share(f["near_warned"], f["near"]), "≥ 70 %")
    row("clean answers warned of", lambda f: share(f["clean_warned"], f["clean"]), "≤ 4 %")
    row("ns a character", lambda f: f"{f['ns_per_char']:.0f}", "≤ 220")
    out.print(table)


def reach_of(stream: LabeledStream) -> float | None:
    """After how many periods of a loop with a long period it is first held back; None if it never is."""
    loop, detector, reach = stream.loop, RepeatDetector(), None
    if not loop or loop["period"] < 40:
        return None
    for chunk in stream.chunks:
        if detector.feed(chunk) is not None:
            break
        if detector.hold is not None and detector.hold > loop["onset"] + loop["period"]:
            held = (detector.hold - loop["onset"]) / loop["period"] - 1
            reach = held if reach is None else min(reach, held)
    return reach


def excess_of(stream: LabeledStream) -> float | None:
    """How far the delay of a loop's stall lies beyond 3.2 periods and 64 characters; None without a stall."""
    detector = RepeatDetector()
    stalls = (detector.feed(chunk) for chunk in stream.chunks)
    stall = next((stall for stall in stalls if stall is not None), None) if stream.loop else None
    return stall and stall.position - stall.onset - 3.2 * stall.period - 64


def show_cut(found: WatchedAnswer) -> None:
    """An answer that was cut although it goes on, around the place."""
    assert found.stall is not None
    text, onset = found.answer.text, found.stall.onset
    print("good?" if found.good else "     ", f"{found.answer.id}: {found.stall.reason}")
    print(f"      {text[max(0, onset - 60) : onset + 120]!r}")


def collected(path: Path, show: bool) -> None:
    """The detector on collected answers."""
    figures = evaluate_answers(read_answers(path), show=show_cut if show else None)
    table = Table("", "repeat (default)", "bar", title=f"answers of {path.name}")
    ending = figures["cut"] - figures["went_on"]
    rows = {
        "answers, MB": (f"{figures['answers']:g}, {figures['chars'] / 1e6:.1f}", ""),
        "answers cut": (share(figures["cut"], figures["answers"]), ""),
        "... that end in their loop / that go on": (f"{ending:g} / {figures['went_on']:g}", ""),
        "... that look good (--show prints them)": (f"{figures['good_cut']:g}", ""),
        "answers that end in a loop of ≥ 300 characters, found": (
            share(figures["found"], figures["loops"]),
            "≥ 98 %",
        ),
        "ns a character": (f"{figures['ns_per_char']:.0f}", ""),
    }  # fmt: skip
    for name, (figure, bar) in rows.items():
        table.add_row(name, figure, bar)
    out.print(table)


def share(part: float, whole: float) -> str:
    return f"{part:g} of {whole:g}  {100 * part / whole:.1f} %" if whole else "none"


def clean(folders: Sequence[Path]) -> None:
    """Triggers and cost on clean text of many kinds; on that of other folders triggers alone."""
    if folders:
        elsewhere(folders)
        return
    table = Table(
        "kind", "MB", "stalls", "ns, tokens", "ns, 4 KB", "with counting", title="clean text"
    )
    rows, chars, stalls = [], 0, 0
    for kind, texts in corpus():
        size, found = sum(map(len, texts)), sum(triggers(text) for text in texts)
        some = texts[: max(1, len(texts) // 8)]
        costs = [cost(some, TOKEN), cost(some, BLOCK), cost(some, TOKEN, CountingDetector)]
        costs[2] += costs[0]
        rows.append(costs)
        chars, stalls = chars + size, stalls + found
        table.add_row(kind, f"{size / 1e6:.2f}", str(found), *(f"{c:.0f}" for c in costs))
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    table.add_section()
    table.add_row("all", f"{chars / 1e6:.1f}", str(stalls), *(f"{c:.0f}" for c in means))
    out.print(table)
    out.print(f"{stalls / chars * 1e6:.3f} stalls per MB (bar 0.1); bars 220 and 70 ns\n")


def elsewhere(folders: Sequence[Path]) -> None:
    """Triggers on the clean text of other folders."""
    chars = stalls = 0
    for kind in FOUND:
        texts = gather(kind, folders)
        found = sum(map(triggers, texts))
        chars, stalls = chars + sum(map(len, texts)), stalls + found
        out.print(f"{kind:12} {sum(map(len, texts)) / 1e6:6.2f} MB  {found} stalls")
    out.print(f"{stalls} stalls in {chars / 1e6:.1f} MB, {stalls / chars * 1e6:.3f} per MB")


def triggers(text: str) -> int:
    feed = RepeatDetector().feed
    return sum(feed(text[i : i + BLOCK]) is not None for i in range(0, len(text), BLOCK))


def cost(texts: Sequence[str], size: int, make: Callable[[], object] = RepeatDetector) -> float:
    """CPU nanoseconds a character, the best of three."""
    best, chars = float("inf"), sum(map(len, texts))
    for _ in range(3):
        began = time.process_time_ns()
        for text in texts:
            feed = make().feed  # type: ignore[attr-defined]
            for start in range(0, len(text), size):
                feed(text[start : start + size])
        best = min(best, (time.process_time_ns() - began) / chars)
    return best


def hostile() -> None:
    """Text made to be expensive: near repeats of every kind."""
    rng = random.Random(5)
    word = "".join(rng.choice("abcdefgh ") for _ in range(30))

    def runs(unit: str, low: int, high: int) -> str:
        """Repetitions of a unit, each broken off after a random number of copies."""
        parts: list[str] = []
        while sum(map(len, parts)) < 200_000:
            parts.append(unit * rng.randint(low, high) + rng.choice("xyz!"))
        return "".join(parts)

    cases = {
        "a x 60-118, broken": runs("a", 60, 118),
        "a x 5-40, broken": runs("a", 5, 40),
        "ab x 20-58, broken": runs("ab", 20, 58),
        "abc x 5-60, broken": runs("abc", 5, 60),
        "30 characters x 1-4, broken": runs(word, 1, 4),
        "100 characters x 1-3, broken": runs(word * 3 + "0123456789", 1, 3),
        "300 characters x 1-3, broken": runs(word * 9 + "0123456789" * 3, 1, 3),
        "two letters at random": "".join(rng.choice("ab") for _ in range(200_000)),
        "one letter, rarely another": "".join(
            "b" if rng.random() < 0.02 else "a" for _ in range(200_000)
        ),
        "a loop without end": "the same thing again, " * 10_000,
        "one letter without end": "a" * 200_000,
        "a loop of 4096": "".join(rng.choice("abc ") for _ in range(4096)) * 50,
        "nested": ((word * 4 + "x") * 3 + "y" * 50) * 300,
        "surrogates and NULs": "\ud83d\x00" * 100_000,
    }
    table = Table(
        "text", "1 character", "tokens", "4 KB", title="hostile text, ns a character (bar: 1000)"
    )
    for name, text in cases.items():
        figures = [cost([text[:200_000]], size) for size in (1, TOKEN, BLOCK)]
        table.add_row(name, *(f"{f:.0f}" for f in figures))
    out.print(table)


def honest() -> None:
    """How many texts that repeat by their nature are cut, by where they stand."""
    table = Table("", "cut", "kinds ever cut", title="texts that repeat by their nature")
    ways = {
        "in plain text": lambda text: (text, CONTENT, ""),
        "in plain text, asked for by its beginning": lambda text: (text, CONTENT, text[:200]),
        "in fenced code": lambda text: (f"```\n{text}\n```\nThat is all.\n", CONTENT, ""),
        "in a tool call": lambda text: (json.dumps({"path": "a", "content": text}), TOOL, ""),
    }
    for name, way in ways.items():
        all_texts = list(honest_texts())
        cut = [kind for kind, text in all_texts if is_cut(*way(text))]
        table.add_row(name, share(len(cut), len(all_texts)), str(len(set(cut))))
    out.print(table)


def is_cut(text: str, channel: str, asked: str) -> bool:
    machine = StreamMachine(({"role": "user", "content": f"Write it, please.\n{asked}"},))
    machine.start()
    for start in range(0, len(text), TOKEN):
        machine.feed(Piece(channel, text[start : start + TOKEN]))
        if machine.stalled:
            return True
    return False


def long(size: int = 1_000_000_000) -> None:
    """A stream of 1 GB through the guard, counting warnings included: what the process needs for it."""
    rng = random.Random(1)
    made = [
        text for kind in ("tables", "logs", "records", "emoji", "latex") for text in generate(kind)
    ]
    pool = "".join(made)

    def chunks(_: object) -> Iterator[str]:
        left = size
        while left > 0:
            start, length = rng.randrange(len(pool) - 65_536), rng.randint(4096, 65_536)
            yield pool[start : start + min(length, left)]
            left -= length

    peaks, marks, sent = [], iter((size // 50, size // 4, size)), 0
    mark, began = next(marks), time.process_time()
    guard = Guard(chunks)
    for piece in guard.iterate("go"):
        sent += len(piece)
        if sent >= mark:
            peaks.append(
                f"{mark / 1e6:.0f} MB: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
            )
            mark = next(marks, 2 * size)
    seconds = time.process_time() - began
    out.print(f"largest size of the process after {', after '.join(peaks)}")
    out.print(f"{sent} characters sent, {guard.report.rollbacks} rollbacks, {seconds:.0f} CPU s\n")


def growth() -> None:
    """CPU a chunk over streams without loops of 10 thousand to 1 million characters."""
    text = "".join(text for kind in ("tables", "logs", "records") for text in generate(kind))
    table = Table("characters", "µs a chunk", "pattern, µs a chunk", title="growing streams")
    for size in (10_000, 100_000, 1_000_000):
        pieces = [text[at : at + TOKEN] for at in range(0, size, TOKEN)]
        ours = follow(pieces) / len(pieces)
        pattern = f"{search_back(pieces) / len(pieces):,.0f}" if size <= 100_000 else ""
        table.add_row(f"{size:,}", f"{ours:.2f}", pattern)
    out.print(table)


def follow(pieces: Sequence[str]) -> float:
    """CPU microseconds of the detector."""
    began, detector = time.process_time(), RepeatDetector()
    for piece in pieces:
        if detector.feed(piece):
            detector.reset()
    return 1e6 * (time.process_time() - began)


def search_back(pieces: Sequence[str]) -> float:
    """CPU microseconds of the pattern over the last 2 000 characters."""
    began, text = time.process_time(), ""
    for at, piece in enumerate(pieces):
        text += piece
        if at % 10 == 0:
            THREE_COPIES.search(text[-2000:])
    return 1e6 * (time.process_time() - began)


if __name__ == "__main__":
    main()

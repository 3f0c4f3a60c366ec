"""How much comes into a window that fills up: the table of docs/window.md, from every surface.

Run with `-s` it prints the table as each surface gives it.
"""

import asyncio
import re
from pathlib import Path

import pytest
from mcp import Client
from tests.surfaces import SURFACES

from millgate import Millgate
from millgate.integrations.hermes import MillgateMemory
from millgate.integrations.mcp.server import build
from millgate.integrations.mcp.tools import Access
from millgate.keys import SCOPES

LENGTH, THRESHOLD, ASKED = 100_000, 75_000, 5_000
QUESTION = "what do you remember of the mill, its keepers and geese?"
PAGE = Path(__file__).parents[1] / "docs" / "window.md"
ROW = re.compile(r"^\| (\d+) % \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
CELL = re.compile(r"(\w+), (\d) facts, trust ([.\d]+), ([\d ]+) tokens")


def table():
    """The table of the page: (percent, threshold) -> tier, facts, trust and tokens; None for nothing."""
    rows = {}
    for percent, without, with_threshold in ROW.findall(PAGE.read_text()):
        for threshold, cell in ((0, without), (THRESHOLD, with_threshold)):
            found = CELL.fullmatch(cell.strip())
            assert found or cell.strip() == "nothing", cell
            rows[int(percent), threshold] = found and (
                found[1], int(found[2]), float(found[3]), int(found[4].replace(" ", ""))
            )  # fmt: skip
    return rows


TABLE = table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pressure") / "kb"
    with Millgate.open(place) as gate:
        # some 14,000 tokens: too many to be loaded whole for 5,000
        gate.add(
            {"id": f"p{n}", "text": f"Page {n}. The mill of number {n} has geese, keepers and {n} wheels. " + " ".join(f"w{n}x{k}" for k in range(60))}
            for n in range(40)
        )  # fmt: skip
        for n in range(12):
            for fact in ("Keeper {} of the mill feeds the geese", "Board {} of the weir is of oak", "Ann {} sings in the choir"):  # fmt: skip
                gate.remember(fact.format(n))
    return place


def window(percent, threshold):
    used = percent * LENGTH // 100
    return {"context_length": LENGTH, "used_tokens": used, "threshold_tokens": threshold}


def row(plan):
    """What a plan says, as the table does."""
    if plan["skip"]:
        return None
    return plan["tier"].upper(), plan["limit"], plan["min_trust"], plan["budget"]


def show(surface, percent, threshold, given):
    print(f"{surface:8} {percent} % {'of' if threshold else 'without'} a threshold: {given}")


def test_the_page_has_every_row():
    assert {percent for percent, _ in TABLE} == {60, 70, 74, 75, 80, 90, 94, 96}


@pytest.mark.parametrize(("percent", "threshold"), TABLE)
@pytest.mark.parametrize("surface", SURFACES)
def test_a_plan_is_as_the_table_says(folder, surface, percent, threshold):
    answer = SURFACES[surface](folder, QUESTION, budget=ASKED, **window(percent, threshold))
    expected = TABLE[percent, threshold]
    show(surface, percent, threshold, row(answer["plan"]))
    assert row(answer["plan"]) == expected
    assert bool(answer["text"]) == bool(expected)
    assert answer["token_estimate"] <= (expected[3] if expected else 0)


@pytest.mark.parametrize(("percent", "threshold"), TABLE)
def test_mcp_gives_what_the_table_says(folder, percent, threshold):
    async def ask():
        with Millgate.open(folder) as gate:
            async with Client(
                build(lambda _: Access(gate, frozenset(SCOPES), local=True))
            ) as client:
                arguments = {"query": QUESTION, "max_tokens": ASKED, **window(percent, threshold)}
                result = await client.call_tool("get_context", arguments)
                assert not result.is_error, result.content
                return result.content[0].text, gate.count_tokens(result.content[0].text)

    answer, tokens = asyncio.run(ask())
    expected = TABLE[percent, threshold]
    show("mcp", percent, threshold, tokens)
    assert ("<ref" in answer) == bool(expected)
    assert tokens <= (expected[3] + 300 if expected else 300)  # with the frame around it


@pytest.mark.parametrize(("percent", "threshold"), TABLE)
def test_hermes_gives_what_the_table_says(folder, percent, threshold):
    with Millgate.open(folder) as gate:
        memory = MillgateMemory(gate, budget=ASKED)
        memory.initialize("monday")
        memory.set_context_budget(**window(percent, threshold), compression_enabled=True)
        given = memory.prefetch(QUESTION)
        facts, tokens = given.count("(id "), gate.count_tokens(given.rpartition("\n\n")[2])
    expected = TABLE[percent, threshold]
    show("hermes", percent, threshold, (facts, tokens))
    assert facts == (expected[1] if expected else 0)
    assert bool(given) == bool(expected)
    assert tokens <= (expected[3] if expected else 0)


@pytest.mark.parametrize("used", [60_000, 80_000, 96_000, 99_000])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("query", "in_danger"),
    [
        ("where is the emergency exit of the mill?", False),
        ("client disclosed suicidal ideation at the mill", True),
        ("I took too many pills at the mill", True),
    ],
)
def test_a_crisis_is_neither_stuffed_nor_skipped_whatever_the_pressure(
    folder, surface, used, query, in_danger
):
    answer = SURFACES[surface](folder, query, context_length=LENGTH, used_tokens=used)
    plan = answer["plan"]
    assert (plan["skip"], plan["task"], plan["group"]) == (False, "rag_critical", "crisis")
    assert answer["strategy"] != "STUFF"
    assert answer["text"]
    # a person is asked for one in danger alone
    assert plan["in_danger"] == in_danger
    assert bool(answer["review"]) == in_danger

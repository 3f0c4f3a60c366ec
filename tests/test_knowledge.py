"""Knowledge edges in a context, from the library, the command line and HTTP, in every store."""

import random

import pytest
from tests.surfaces import SURFACES, ask_library, run_command

from millgate import Millgate
from millgate.types import Edge
from millgate.types.notes import Stage

FILLER = [f"Notice {n}: the {w} of the valley was painted." for n, w in enumerate(("gate", "mill", "lock", "weir", "barn", "hut", "quay", "inn", "well", "yard"))]  # fmt: skip
QUESTION = "what does payments need?"


@pytest.fixture(params=SURFACES)
def ask(request):
    return SURFACES[request.param]


@pytest.fixture
def folder(tmp_path):
    """A store with some texts of which no word leads from one to the other."""

    def make(edges, **texts):
        with Millgate.open(tmp_path / "kb") as gate:
            rows = [{"id": id, "text": text} for id, text in texts.items()]
            rows += [{"id": f"f{n}", "text": text} for n, text in enumerate(FILLER)]
            gate.add(rows)
        (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
        run_command("graph", "load", str(tmp_path / "edges.csv"), f"--store={tmp_path / 'kb'}")
        return tmp_path / "kb"

    return make


def shown(answer):
    return [chunk["id"] for chunk in answer["chunks"]]


@pytest.mark.parametrize(
    "edge", ["Payments,depends_on,Ledger", "payments,depends_on,ledger", "PAYMENTS,uses,ledger"]
)
@pytest.mark.parametrize(
    "text", ["Ledger keeps its rows in a vault.", "Its rows are kept by the ledger in a vault."]
)
def test_an_edge_is_followed_however_its_names_are_cased(ask, folder, edge, text):
    store = folder([edge], pay="Payments takes cards at noon.", rows=text)
    answer = ask(store, QUESTION)
    assert "rows" in shown(answer)
    assert any(edge.split(",")[0] in line for line in answer["graph_context"])


def test_a_name_that_the_best_text_writes_in_lower_case_leads_on(ask, folder):
    store = folder(
        ["Payments,depends_on,Ledger"],
        bill="the billing of a month is done by payments at noon.",
        rows="its rows are kept by the ledger in a vault.",
    )
    assert "rows" in shown(ask(store, "who does the billing of a month?"))


def test_a_name_of_two_words_is_followed_too(ask, folder):
    store = folder(
        ["Card Desk,depends_on,Night Vault"],
        pay="Cards are taken by the card desk at noon.",
        rows="Its rows are kept in the night vault below.",
    )
    assert "rows" in shown(ask(store, "what does the card desk need?"))


def test_three_edges_are_followed_and_each_takes_its_share(ask, folder):
    chain = ["Payments,depends_on,Ledger", "Ledger,uses,Vault", "Vault,uses,Keyring", "Keyring,uses,Brass"]  # fmt: skip
    store = folder(
        chain,
        pay="Payments takes cards at noon.",
        one="A ledger of rows is bound in leather.",
        two="The vault lies below the stairs.",
        three="Ada has the keyring on her belt.",
        four="Some brass is polished on Fridays.",
    )
    answer = ask(store, QUESTION)
    order = [id for id in shown(answer) if id in ("one", "two", "three", "four")]
    assert order == ["one", "two", "three"]
    scores = {chunk["id"]: chunk["score"] for chunk in answer["chunks"]}
    assert scores["one"] > scores["two"] > scores["three"] > 0


def test_a_link_leads_to_the_page_beside_and_to_every_part_of_a_long_one(ask, tmp_path):
    guide = tmp_path / "docs" / "guide"
    guide.mkdir(parents=True)
    rng = random.Random(7)
    words = [
        f"{a}{b}" for a in ("plank", "rope", "mast", "oar") for b in ("ing", "er", "ward", "ful")
    ]
    lines = (" ".join(rng.choices(words, k=12)).capitalize() + "." for _ in range(200))
    long = "\n\n".join(lines)
    (guide / "intro.md").write_text(
        "# Intro\n\nHarbor tours begin here. Then [the boat](boat.md).\n"
    )
    (guide / "boat.md").write_text(f"# Boat\n\n{long}\n\nSee [the sails](../rig/sails.md).\n")
    (guide.parent / "rig").mkdir()
    (guide.parent / "rig" / "sails.md").write_text("# Canvas\n\nIt is sewn by Orla in winter.\n")
    store = tmp_path / "kb"
    run_command("add", str(tmp_path / "docs"), f"--store={store}")
    run_command("graph", "load", "--collection=main", f"--store={store}")
    answer = ask(store, "where do harbor tours begin?")
    documents = {chunk["document"] for chunk in answer["chunks"]}
    assert {"docs/guide/intro.md", "docs/guide/boat.md", "docs/rig/sails.md"} <= documents


def test_a_second_query_names_what_an_edge_leads_to_though_nothing_propagates(tmp_path):
    seen = "Payments takes cards at noon."
    texts = {"pay": seen, "rows": "A ledger of rows is bound in leather."}
    with Millgate.open(tmp_path / "kb", propagate={"mode": "off"}) as gate:
        gate.add([{"id": id, "text": text} for id, text in texts.items()])
        gate.graph.link([Edge("Payments", "depends_on", "Ledger")])
        context = gate.context("when does payments take cards?", window=[seen])
    (found,) = (c for c in context.trace.candidates if c.chunk.id == "rows")
    assert Stage.EXPAND in {note.stage for note in found.notes}


def test_a_common_word_of_a_text_is_no_name(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": f"n{n}", "text": f"The time of tide {n} is noted."} for n in range(40)])
        gate.add([{"id": "clock", "text": "Brass wheels turn."}])
        gate.graph.link([Edge("Time", "uses", "clock")])
    answer = ask_library(tmp_path / "kb", "tide 7")
    assert "clock" not in shown(answer)


def test_paths_show_names_as_the_graph_spells_them(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.graph.link([Edge("Payments", "depends_on", "Ledger"), Edge("ledger", "uses", "Vault")])
        lines = [found.path.line for found in gate.graph.paths("PAYMENTS")]
    assert lines == [
        "Payments -[depends_on]-> Ledger",
        "Payments -[depends_on]-> ledger -[uses]-> Vault",
    ]

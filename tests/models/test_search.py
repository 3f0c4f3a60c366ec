import pytest
from tests.waiting import MOST_S

from millgate.errors import ConfigError, UpstreamError
from millgate.models.grade import GraderPolicy, LlmGrader, llm_grader
from millgate.models.search import McpSearch, SearchPolicy, Searx, searcher, web_chunks
from millgate.pipeline.stages.grade import outside_candidates
from millgate.types.notes import Fate


async def test_results_are_untrusted_chunks_with_their_address(web):
    found = await Searx(f"{web}/ok").search("red foxes", limit=3)
    assert [chunk.metadata["url"] for chunk in found] == [
        f"https://example.org/{n}" for n in range(3)
    ]
    first = found[0]
    assert (first.source, first.title, first.text) == ("web", "Hit 0", "red foxes number 0")
    assert first.metadata["untrusted"] is True
    assert first.admission is None


async def test_each_address_comes_once_and_ten_thousand_hits_are_cut(web):
    assert len(await Searx(f"{web}/ok").search("x", limit=100)) == 5
    assert len(await Searx(f"{web}/many").search("x", limit=7)) == 7


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("html", "instead of JSON"),
        ("nothing", "instead of JSON"),
        ("list", "without a list of results"),
        ("loop", "answered 302"),
        ("error", "500"),
        ("slow", "within"),
        ("endless", "more than"),
    ],
)
async def test_a_search_that_misbehaves_is_an_upstream_error(web, mode, said):
    with pytest.raises(UpstreamError, match=said):
        await Searx(f"{web}/{mode}", timeout_s=1.0 if mode == "slow" else MOST_S).search(
            "x", limit=3
        )


async def test_a_server_that_is_not_there_is_an_upstream_error():
    with pytest.raises(UpstreamError, match="cannot be reached"):
        await Searx("http://127.0.0.1:9").search("x", limit=3)


@pytest.mark.parametrize(("query", "limit"), [("", 3), ("  ", 3), ("x", 0), ("x", -1)])
async def test_nothing_asked_is_nothing_found(query, limit):
    assert await Searx("http://127.0.0.1:9").search(query, limit=limit) == []


async def test_a_very_long_query_is_cut(web):
    found = await Searx(f"{web}/ok").search("word " * 5000, limit=1)
    assert len(found[0].text) < 600


def test_what_comes_from_outside_is_added_once_and_scored_by_rank():
    rows = [{"url": f"https://example.org/{n % 2}", "content": "text"} for n in range(4)]
    sifted = outside_candidates(web_chunks(rows, 10))
    assert [c.score for c in sifted.kept] == [1.0, 0.5]
    assert sifted.added == sifted.kept
    assert all(c.notes[0].fate is Fate.ADD for c in sifted.kept)


def test_settings_choose_the_search_and_the_judge():
    assert searcher(SearchPolicy()) is None
    assert isinstance(searcher(SearchPolicy(searx="http://127.0.0.1:9")), Searx)
    assert isinstance(searcher(SearchPolicy(mcp="some-server --stdio")), McpSearch)
    with pytest.raises(ConfigError, match="keep one"):
        searcher(SearchPolicy(searx="http://127.0.0.1:9", mcp="some-server"))
    assert llm_grader(GraderPolicy()) is None
    assert isinstance(llm_grader(GraderPolicy(url="http://127.0.0.1:9/v1", model="m")), LlmGrader)

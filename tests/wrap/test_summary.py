"""What the user is told at the end."""

from collections import Counter

from millgate.service.observe.metrics import Metrics
from millgate.wrap.summary import Summary


def calls(outcome, count=1, status=200):
    """The metric of calls with this outcome."""
    return (
        f'millgate_model_calls_total{{model="m",guard="{outcome}",status="{status}"}} {count}.0\n'
    )


def test_the_numbers_of_all_gateways_are_added_up():
    one = (
        "millgate_guard_stalls_total 2.0\nmillgate_guard_recovered_total 1.0\nmillgate_tokens_injected_total 300.0\n"
        + calls("recovered")
    )
    two = (
        'millgate_guard_stalls_total 1.0\nmillgate_tokens_saved_total 25.0\nmillgate_circles_total{rung="note"} 3.0\nmillgate_circles_total{rung="end"} 1.0\n'
        + calls("failed")
    )
    found = Summary(Counter({"guarded": 4, "straight": 2}), [one, "", two], 1)
    assert found.calls == 5, "a turn that we end makes no call of a model"
    text = "\n".join(found.lines())
    assert (
        "5 model calls; 3 guarded; 3 loops cut from 2 answers, 1 recovered, 1 kept looping; 3 notes on repeated tool calls; 1 turn ended"
        in text
    )
    assert "300 tokens of context injected; 25 tokens left out that the window shows" in text
    assert "1 gateway failed: 2 calls went straight" in text


def test_a_call_that_went_straight_while_no_gateway_failed_waited_too_long_for_one():
    text = "\n".join(Summary(Counter({"straight": 1}), [], 0).lines())
    assert "the gateway did not answer in time: 1 call went straight to the service" in text


def test_the_names_are_those_of_the_metrics():
    found = Summary(Counter({"guarded": 1}), [Metrics().text()], 0)
    assert len(found.lines()) == 1


def test_a_session_without_a_call_says_so():
    assert "no model call" in Summary(Counter({"passed": 3}), [], 0).lines()[0]


def test_one_is_singular_and_what_did_not_happen_is_left_out():
    looped = ["millgate_guard_stalls_total 1.0\n" + calls("recovered")]
    lines = Summary(Counter({"guarded": 1}), looped, 0).lines()
    assert lines == ["1 model call; 1 guarded; 1 loop cut from 1 answer, 1 recovered"]
    lines = Summary(Counter({"guarded": 1}), [calls("clean")], 0).lines()
    assert lines == ["1 model call; 1 guarded; no loop"]


def test_an_agent_in_circles_is_not_said_to_have_no_loop():
    metrics = [calls("clean") + 'millgate_circles_total{rung="note"} 1.0\n']
    (line,) = Summary(Counter({"guarded": 1}), metrics, 0).lines()
    assert line == "1 model call; 1 guarded; 1 note on repeated tool calls"


def test_calls_without_an_answer_are_counted_by_why():
    endings = Counter({"429": 2, "not reached": 1})
    (line,) = Summary(Counter({"guarded": 8}), [calls("clean", 5)], 0, endings=endings).lines()
    assert line == "8 model calls; 8 guarded; 3 without an answer (429 ×2, not reached ×1); no loop"
    (line,) = Summary(Counter({"guarded": 1}), [calls("off", 1, 502)], 0, endings=Counter({"502": 1})).lines()  # fmt: skip
    assert line == "1 model call; 1 guarded; 1 without an answer (502 ×1)"


def test_calls_that_the_agent_gave_up_and_answers_that_broke_off_are_told():
    metrics = [calls("abandoned") + calls("abandoned", 1, 499) + calls("broken", 2)]
    (line,) = Summary(Counter({"given up": 1, "guarded": 3}), metrics, 0).lines()
    assert line == "4 model calls; 3 guarded; 2 given up by the agent; 2 broken off by the service"


def test_traces_that_were_lost_are_told():
    lines = Summary(Counter({"guarded": 1}), ["millgate_writes_lost_total 2.0\n"], 0).lines()
    assert lines[1] == "2 traces could not be kept: run millgate doctor"


def test_a_store_that_could_not_be_used_is_named_with_the_reason():
    lines = Summary(
        Counter({"guarded": 1}), [], 0, lost_store="kb: it is damaged; restore it"
    ).lines()
    assert lines[1:] == [
        "no trace was kept and no context added, for want of the store kb: it is damaged; restore it"
    ]


def test_a_gateway_that_failed_before_it_had_a_call_is_no_alarm():
    lines = Summary(Counter({"guarded": 1}), [], 1, "slow").lines()
    assert lines[1] == "1 gateway failed and was replaced: no call was touched"


def test_a_cost_of_less_than_a_cent_is_not_nothing():
    (line,) = Summary(Counter({"guarded": 1}), ["millgate_model_cost_total 0.002\n"], 0).lines()
    assert line.endswith("cost about $0.0020")


def test_the_line_says_where_calls_went_and_what_they_cost():
    spent = 'millgate_model_cost_total{model="m"} 0.421\nmillgate_cache_lost_tokens_total{blame="client"} 9000.0\n'
    hosts = Counter({"b.example": 1, "a.example": 2, "c.example": 1, "d.example": 1})
    (line,) = Summary(Counter({"guarded": 5}), [spent, spent], 0, services=hosts).lines()
    assert line.startswith(
        "5 model calls to a.example, b.example, c.example and 1 more; 5 guarded; "
    )
    assert line.endswith("; cost about $0.84; 18,000 tokens paid again because the prompt cache broke")  # fmt: skip


def test_a_session_without_a_guarded_call_says_what_came_or_why_nothing_may_have():
    others = Counter({"GET a.example/v1/models": 1})
    (line,) = Summary(Counter({"passed": 1}), [], 0, others=others).lines()
    assert line.endswith("; 1 other request passed: GET a.example/v1/models")
    (line,) = Summary(Counter({}), [], 0).lines()
    assert line.endswith("the agent made none, or called a service that wrap does not redirect; see docs/agents.md#wrap")  # fmt: skip


def test_the_last_lines_of_a_gateway_that_failed_are_shown():
    log = "\n".join(f"line {n}" for n in range(7))
    lines = Summary(Counter({"broken": 1}), [], 2, log).lines()
    assert lines[0].startswith("1 model call")
    assert "2 gateways failed" in lines[1]
    assert lines[2:] == [f"  it wrote: line {n}" for n in range(2, 7)]


def test_folded_tokens_are_told_and_measured_ones_are_not():
    text = 'millgate_fold_tokens_total{group="on"} 40.0\nmillgate_fold_tokens_total{group="measure"} 9.0\n'
    assert "; 40 tokens folded" in Summary(Counter({"guarded": 1}), [text], 0).lines()[0]


def test_a_compaction_is_told_with_what_was_put_back():
    text = 'millgate_compactions_total{way="summary"} 1.0\nmillgate_put_back_tokens_total 57.0\n'
    assert (
        "; 1 compaction, 57 tokens put back"
        in Summary(Counter({"guarded": 1}), [text], 0).lines()[0]
    )

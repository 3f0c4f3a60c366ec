"""Protocols: the list of what a user can replace or add is complete, and its examples run."""

import doctest
import inspect

from tests.stores.dictionaries import DictionaryStore

from millgate import Millgate, protocols


def test_the_examples_run_and_print_what_they_say():
    done = doctest.testmod(protocols, optionflags=doctest.REPORT_NDIFF)
    assert (done.failed, done.attempted > 20) == (0, True)


def test_every_part_that_open_takes_stands_in_the_list():
    listed = protocols.__doc__ or ""
    parameters = inspect.signature(Millgate.open).parameters
    for name in parameters.keys() - {"path", "tenant", "settings", "wait_for_index", "arguments"}:
        assert f"Millgate.open({name}=" in listed


def test_every_protocol_that_the_list_names_exists():
    for line in (protocols.__doc__ or "").splitlines():
        if "handed in" not in line and "Millgate.open(" in line and line.startswith("    "):
            assert line.split()[1] in protocols.__all__


def test_a_grader_and_a_store_may_lack_what_is_optional():
    class Plain:
        async def grade(self, query, candidates):
            return [1.0] * len(candidates)

    assert not isinstance(Plain(), protocols.GraderWithBands)
    assert not isinstance(DictionaryStore(), protocols.TraceBatchStore | protocols.ReadOnlyStore)
    with Millgate.open(store=DictionaryStore(), grader=Plain()) as gate:
        gate.add([{"id": "tide", "text": "The tide turns at six."}])
        assert gate.context("when does the tide turn?", budget=100).chunks[0].id == "tide"

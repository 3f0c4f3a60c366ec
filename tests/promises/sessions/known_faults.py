"""Known faults: what is red on the code of today; whoever mends one takes its line away.

The marks are strict: a cell that turns green fails until its line is gone.
"""

_FORGOTTEN = "the windows of a conversation are in memory alone"

KNOWN_FAULTS = {
    "no_question_is_looked_up_twice[codex]": "questions that the window keeps are looked up again after a compaction",
    "the_second_compaction_is_noticed_as_the_first[opencode]": "the second is not noticed",
    "the_second_compaction_is_noticed_as_the_first[hermes]": "the first is not noticed, the second is",
    "compactions_are_noticed_after_a_restart_too[opencode]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[hermes]": _FORGOTTEN,
    "a_rule_stands_once_in_every_request_whatever_was_compacted[opencode]": "what was put back is gone after one call, and the second compaction is not noticed",
    "a_rule_stands_once_after_restarts_too[opencode]": _FORGOTTEN,
    "a_resumed_session_is_folded_as_before_though_there_is_no_store": "where folding began is forgotten with the process",
}

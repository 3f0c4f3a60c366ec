"""Known faults: what is red on the code of today; whoever mends one takes its line away.

The marks are strict: a cell that turns green fails until its line is gone.
"""

_FORGOTTEN = "the windows of a conversation are in memory alone"

KNOWN_FAULTS = {
    "each_request_extends_the_last_one_where_the_agents_own_does[claude-store]": "a string that was a list gets its context as another part, and is looked up anew",
    "each_request_extends_the_last_one_where_the_agents_own_does[opencode-remember]": "what was put back is found under the bytes of messages whose marks move",
    "each_request_extends_the_last_one_where_the_agents_own_does[pi-remember]": "what was put back is found under the bytes of messages whose marks move",
    "each_request_extends_the_last_one_where_the_agents_own_does[claude-all]": "a string that was a list gets its context as another part, and is looked up anew",
    "each_request_extends_the_last_one_where_the_agents_own_does[opencode-all]": "what was put back is found under the bytes of messages whose marks move",
    "each_request_extends_the_last_one_though_the_gateway_is_restarted[claude-store]": "a string that was a list gets its context as another part, and is looked up anew",
    "no_question_is_looked_up_twice[claude]": "the key of a question changes with its spelling and its mark",
    "no_question_is_looked_up_twice[codex]": "questions that the window keeps are looked up again after a compaction",
    "no_question_is_looked_up_twice[opencode]": "the key of a question changes with its mark",
    "no_question_is_looked_up_twice[pi]": "the key of a question changes with its mark, and kept turns are asked again after a compaction",
    "no_question_is_looked_up_twice_after_a_restart[claude]": "the key of a question changes with its spelling and its mark",
    "the_second_compaction_is_noticed_as_the_first[codex]": "a second item that nobody can read, in the place of the first, is not noticed",
    "the_second_compaction_is_noticed_as_the_first[opencode]": "the second is not noticed",
    "the_second_compaction_is_noticed_as_the_first[hermes]": "the first is not noticed, the second is",
    "compactions_are_noticed_after_a_restart_too[claude]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[codex]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[opencode]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[gemini]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[hermes]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[pi]": _FORGOTTEN,
    "compactions_are_noticed_after_a_restart_too[qwen]": _FORGOTTEN,
    "a_rule_stands_once_in_every_request_whatever_was_compacted[opencode]": "what was put back is gone after one call, and the second compaction is not noticed",
    "a_rule_stands_once_in_every_request_whatever_was_compacted[pi]": "what was put back is gone after one call",
    "a_rule_stands_once_after_restarts_too[claude]": _FORGOTTEN,
    "a_rule_stands_once_after_restarts_too[opencode]": _FORGOTTEN,
    "a_rule_stands_once_after_restarts_too[gemini]": _FORGOTTEN,
    "a_rule_stands_once_after_restarts_too[pi]": _FORGOTTEN,
    "a_rule_stands_once_after_restarts_too[qwen]": _FORGOTTEN,
    "a_resumed_session_is_folded_as_before_though_there_is_no_store": "where folding began is forgotten with the process",
    "two_sessions_at_once_each_keep_their_own[gemini]": "none is noticed: two sessions that begin alike have one name, and instructions of this API are no part of it",
    "a_subagent_of_the_same_session_gets_nothing_of_the_agents_and_takes_nothing_from_it[opencode]": "what was put back is found under the bytes of messages whose marks move",
    "requests_that_are_equal_to_the_api_go_on_as_equal_ones[store]": "context goes into a string, and beside the parts of a list",
}

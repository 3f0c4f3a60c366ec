"""Folder: what is folded and what is not, case by case."""

import pytest

import millgate
from millgate.errors import InputError
from millgate.sessions.folding.folder import Folder, clears_of

CODE = [f"    value_{n} = load({n * 7})" for n in range(60)]
NUMBERED = [f"{n:>6}→{line}" for n, line in enumerate(CODE, 1)]


def call(id, tool="Read", **arguments):
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": tool, "input": arguments}],
    }


def result(id, lines, **more):
    text = lines if isinstance(lines, str) else "\n".join(lines)
    block = {"type": "tool_result", "tool_use_id": id, "content": text} | more
    return {"role": "user", "content": [block]}


def said(message):
    return message["content"][0]["content"]


def conversation(*pairs):
    return [{"role": "user", "content": "Fix it."}, *(m for pair in pairs for m in pair)]


def read_twice(again=NUMBERED, first=NUMBERED, *, edit=False):
    """A file that is read twice; other lines may come back the second time."""
    pairs = [(call("toolu_1", file_path="a.py"), result("toolu_1", first))]
    if edit:
        pairs.append((call("toolu_2", "Edit", file_path="a.py"), result("toolu_2", "done")))
    pairs.append((call("toolu_3", file_path="a.py"), result("toolu_3", again)))
    return conversation(*pairs)


def test_a_copy_becomes_one_plain_sentence():
    messages = read_twice()
    sent, report = millgate.fold(messages)
    assert said(sent[-1]) == (
        "[These 60 lines are, character for character, lines numbered 1 to 60 of the result of your call "
        'Read(a.py), call toolu_1, above: from "value_0 = load(0)" to "value_59 = load(413)". Nothing was deleted; read '
        "them there.]"
    )
    assert report.folds[0].lines == 60
    assert sent[:-1] == messages[:-1]


def test_other_line_numbers_are_part_of_the_pointer():
    messages = read_twice([f"{n:>6}\t{line}" for n, line in enumerate(CODE, 301)])
    sent, _ = millgate.fold(messages)
    assert r'Here they are numbered as in "   301\t".' in said(sent[-1])
    assert millgate.expand(sent) == messages


def test_lines_without_numbers_point_to_numbered_ones():
    messages = read_twice(CODE)
    sent, _ = millgate.fold(messages)
    assert "Here they have no line numbers." in said(sent[-1])
    assert millgate.expand(sent) == messages


def test_a_shift_of_the_indentation_is_part_of_the_pointer():
    for again, words in (
        (["  " + line for line in CODE], "Here they are indented by 2 more spaces."),
        ([line[2:] for line in CODE], "Here they are indented by 2 fewer spaces."),
        (["\t" + line for line in CODE], "Here they are indented by 1 more tabs."),
    ):
        messages = read_twice(again, CODE)
        sent, _ = millgate.fold(messages)
        assert words in said(sent[-1])
        assert millgate.expand(sent) == messages


def test_what_the_model_wrote_itself_is_a_source():
    messages = conversation(
        (
            call("toolu_1", "Write", file_path="a.py", content="\n".join(CODE)),
            result("toolu_1", "ok"),
        ),
        (call("toolu_2", "Bash", command="python show.py"), result("toolu_2", NUMBERED)),
    )
    sent, _ = millgate.fold(messages)
    assert "of the 'content' in your call Write(a.py), call toolu_1" in said(sent[-1])
    assert millgate.expand(sent) == messages


def test_a_reading_after_an_edit_keeps_what_is_new_and_marks_the_old_reading():
    changed = [*NUMBERED[:30], "    31→    value = 0", *NUMBERED[31:]]
    messages = read_twice(changed, edit=True)
    sent, report = millgate.fold(messages)
    lines = said(sent[-1]).split("\n")
    assert lines[1] == "    31→    value = 0"
    assert len(lines) == 3
    assert all("The file was edited since; these lines were not." in lines[n] for n in (0, 2))
    assert all(fold.is_stale for fold in report.folds)
    assert sent[:-1] == messages[:-1]  # the old reading stands


def is_untouched(messages, **request):
    sent, report = millgate.fold(messages, request=request)
    return sent == messages and not report.folds


def test_errors_are_never_folded():
    copy = NUMBERED
    pairs = [(call("toolu_1", file_path="a.py"), result("toolu_1", copy))]
    for again in (
        result("toolu_2", copy, is_error=True),
        result("toolu_2", ["Exit code 1", *copy]),
        result("toolu_2", ["<returncode>2</returncode>", *copy]),
        result("toolu_2", [*copy, "Traceback (most recent call last):", "ValueError"]),
    ):
        assert is_untouched(conversation(*pairs, (call("toolu_2", file_path="a.py"), again)))


def test_a_listing_of_conflicts_is_never_folded_nor_pointed_to():
    conflict = ["<<<<<<< HEAD", *CODE, "=======", *CODE, ">>>>>>> other"]
    assert is_untouched(read_twice(conflict, CODE))
    assert is_untouched(read_twice(conflict, conflict))
    assert is_untouched(read_twice(CODE, conflict))
    status = ["Unmerged paths:", *(f"\tboth modified:   src/file_{n}.py" for n in range(50))]
    assert is_untouched(read_twice(status, status))


def test_short_results_and_first_readings_are_never_folded():
    assert is_untouched(read_twice(NUMBERED[:40]))
    assert is_untouched(
        conversation(
            (call("toolu_1", "Bash", command="grep"), result("toolu_1", CODE)),
            (call("toolu_2", file_path="a.py"), result("toolu_2", CODE)),
        )
    )


def test_images_thinking_system_prompts_and_words_of_a_person_stay():
    text = "\n".join(CODE)
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": text, "signature": "s"}]},
        {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "source": {}}]},
    ]  # fmt: skip
    assert is_untouched(messages)


def test_a_moving_mark_for_the_cache_changes_nothing():
    messages = read_twice()
    marked = [*messages[:-1], {"role": "user", "content": [{**messages[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]}]  # fmt: skip
    plain, _ = millgate.fold(messages)
    sent, _ = millgate.fold(marked)
    assert said(sent[-1]) == said(plain[-1])
    assert sent[-1]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_nothing_points_to_what_the_server_may_clear():
    clear = {"type": "clear_tool_uses_20250919"}
    assert is_untouched(read_twice(), context_management={"edits": [clear]})
    assert is_untouched(read_twice(), truncation="auto")
    assert is_untouched(read_twice(), context_management=[{"type": "compaction"}])
    kept = {"edits": [clear | {"exclude_tools": ["Read"]}, {"type": "clear_thinking_20251015"}]}
    assert not is_untouched(read_twice(), context_management=kept)


def test_cleared_inputs_are_no_source():
    written = conversation(
        (
            call("toolu_1", "Write", file_path="a.py", content="\n".join(CODE)),
            result("toolu_1", "ok"),
        ),
        (call("toolu_2", "Bash", command="show"), result("toolu_2", CODE)),
    )
    clear = {"type": "clear_tool_uses_20250919"}
    assert not is_untouched(written, context_management={"edits": [clear]})
    assert is_untouched(
        written, context_management={"edits": [clear | {"clear_tool_inputs": True}]}
    )
    assert clears_of({"context_management": "?"}).everything


def test_the_same_call_with_the_same_result_after_a_fold_gets_the_full_text_and_stops():
    pairs = [
        (call(f"toolu_{n}", file_path="a.py"), result(f"toolu_{n}", NUMBERED)) for n in range(3)
    ]
    other = [(call(f"toolu_{n}", file_path="b.py"), result(f"toolu_{n}", CODE)) for n in (7, 8)]
    thought = {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Again."}
    messages = conversation(*pairs[:2], thought, pairs[2], *other)
    sent, report = millgate.fold(messages)
    assert [said(m) == "\n".join(NUMBERED) for m in (sent[2], sent[4], sent[8])] == [
        True, False, True,
    ]  # fmt: skip
    assert sent[9:] == messages[9:]
    assert report.stopped_at == 8
    assert "Read(a.py)" in report.stopped_by
    assert millgate.expand(sent) == messages


def test_a_circle_after_a_fold_stops_folding():
    circle = [(call(f"toolu_c{n}", "Bash", command="make"), result(f"toolu_c{n}", "no rule")) for n in range(3)]  # fmt: skip
    again = (call("toolu_9", "Bash", command="cat b.txt"), result("toolu_9", NUMBERED))
    messages = [*read_twice(), *(m for pair in [*circle, again] for m in pair)]
    sent, report = millgate.fold(messages)
    assert len(report.folds) == 1
    assert "3 times" in report.stopped_by
    assert sent[-1] == messages[-1]


def test_messages_before_the_start_stay_as_they_were_sent():
    messages = read_twice()
    folder = Folder(start=len(messages))
    folder.extend(messages)
    assert folder.apply(messages) == messages


def test_a_text_that_reads_like_a_pointer_is_given_back_as_it_was():
    messages = read_twice()
    pointer = said(millgate.fold(messages)[0][-1])
    for text in (pointer, pointer.replace("[", "[ "), pointer.replace("[", "[   ")):
        forged = [*messages, call("toolu_8", "Bash", command="x"), result("toolu_8", text)]
        sent, _ = millgate.fold(forged)
        assert said(sent[-1]) != text
        assert millgate.expand(sent) == forged


def test_what_is_not_a_conversation_passes():
    for messages in ([], [None, 3, "text"], [{"role": "tool"}], [{"role": "user", "content": [None]}]):  # fmt: skip
        assert millgate.fold(messages)[0] == messages
        assert millgate.expand(messages) == messages


@pytest.mark.parametrize("call", [millgate.fold, millgate.expand])
def test_what_is_no_list_of_messages_is_refused(call):
    with pytest.raises(InputError, match="messages must be a list, not dict"):
        call({"messages": []})


def test_the_second_text_of_a_result_is_folded_and_pointed_to():
    """Codex gives a status in the first text of a result, and the output in the second."""

    def read(id, lines):
        texts = ["Script completed\nOutput:\n", "\n".join(lines)]
        call = {"type": "custom_tool_call", "call_id": id, "name": "exec", "input": f"cat a.py // {id}"}  # fmt: skip
        output = [{"type": "input_text", "text": text} for text in texts]
        return call, {"type": "custom_tool_call_output", "call_id": id, "output": output}

    messages = conversation(read("call_1", CODE), read("call_2", [*CODE, "more"]))
    sent, report = millgate.fold(messages)
    assert "of the second text of the result of your call exec(cat a.py // call_1), call call_1, above" in sent[-1]["output"][1]["text"]  # fmt: skip
    assert report.repeated_calls == (4,), "once for a result, not for each of its texts"
    assert millgate.expand(sent) == messages

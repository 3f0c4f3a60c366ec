"""Gemini CLI's sessions: JSON lines with a head, messages, and changes ({"$set": …}); or all of it as one document.

A message is written again when it grows: first the thoughts, then the same id with its tool calls. The result of a call
stands with the call, and mostly once more in a message of its own. Each part counts once.
"""

from collections.abc import Iterator
from typing import Any

from millgate.sessions.xray.formats import Entry, text_of
from millgate.sessions.xray.usage import count_of, read_usage


class GeminiReader:
    """One session file, line by line."""

    def __init__(self) -> None:
        self._session = ""
        self._known: set[tuple[str, str]] = set()  # parts of messages that were read

    def entries(self, line: dict[str, Any]) -> Iterator[Entry] | None:
        """What a line says; None if it is not Gemini CLI's."""
        if isinstance(line.get("projectHash"), str) and isinstance(line.get("sessionId"), str):
            self._session, self._known = line["sessionId"], set()
            return self._messages(line)
        if not self._session:
            return None
        if isinstance(changed := line.get("$set"), dict):
            return self._messages(changed)
        return self._message(line) if line.get("type") in ("user", "gemini") else iter(())

    def _messages(self, line: dict[str, Any]) -> Iterator[Entry]:
        listed = line.get("messages")
        yield Entry(session=self._session)  # also if nothing is new in it: it was understood
        for message in listed if isinstance(listed, list) else ():
            if isinstance(message, dict):
                yield from self._message(message)

    def _message(self, line: dict[str, Any]) -> Iterator[Entry]:
        yield Entry(session=self._session)
        id, kind, time = text_of(line.get("id")), line.get("type"), text_of(line.get("timestamp"))
        if kind == "user":
            if content := list(self._user_parts(id, line.get("content"))):
                yield Entry({"role": "user", "content": content}, session=self._session, time=time)
        elif kind == "gemini":
            reported = count_of(line.get("tokens"), "input")
            content = list(self._model_parts(id, line))
            if content or self._is_new(id, "turn"):
                message = {"role": "assistant", "content": content}
                usage = read_usage(line.get("tokens"), model=line.get("model"), id=id)
                yield Entry(message, session=self._session, time=time, response=id, reported=reported, usage=usage)  # fmt: skip
            if results := list(self._results(line)):
                yield Entry({"role": "user", "content": results}, session=self._session, time=time)

    def _is_new(self, id: str, part: str) -> bool:
        known, key = self._known, (id, part)
        return key not in known and not known.add(key)  # type: ignore[func-returns-value]

    def _user_parts(self, id: str, content: object) -> Iterator[dict[str, Any]]:
        for at, part in enumerate(_parts(content)):
            response = part.get("functionResponse")
            if isinstance(response, dict):
                yield from self._result(response)
            elif (words := text_of(part.get("text"))) and self._is_new(id, f"text {at}"):
                yield {"type": "text", "text": words}

    def _model_parts(self, id: str, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for at, thought in enumerate(_parts(line.get("thoughts"))):
            said = " ".join(filter(None, map(text_of, (thought.get("subject"), thought.get("description")))))  # fmt: skip
            if said and self._is_new(id, f"thought {at}"):
                yield {"type": "thinking", "thinking": said}
        for part in _parts(line.get("content")):
            if (words := text_of(part.get("text"))) and self._is_new(id, f"text {words}"):
                yield {"type": "text", "text": words}
        for call in _parts(line.get("toolCalls")):
            called = text_of(call.get("id"))
            if self._is_new(called, "call"):
                yield {"functionCall": call}

    def _results(self, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for call in _parts(line.get("toolCalls")):
            for part in _parts(call.get("result")):
                if isinstance(response := part.get("functionResponse"), dict):
                    yield from self._result(response)

    def _result(self, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
        id, given = text_of(response.get("id")), response.get("response")
        if self._is_new(id, "result"):
            shown = given.get("output", given) if isinstance(given, dict) else given
            yield {"type": "tool_result", "tool_use_id": id, "content": shown}


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []

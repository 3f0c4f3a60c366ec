"""Completions: OpenAI's text completions, the API before chat: a prompt in, its continuation out.

There are no roles, so an answer goes on by prefill: the prompt with the text so far behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from millgate.guard.channels import CONTENT, EVENT, Piece
from millgate.guard.dialects.chat import ChatDialect
from millgate.guard.dialects.dialect import Event, Fields, OwnAnswer, pick
from millgate.guard.policy import Resume
from millgate.guard.resume import Message


class CompletionsDialect(ChatDialect):
    """Text completions; errors, usage, limits and sampling are those of chat."""

    path: ClassVar[str] = "/v1/completions"
    operation: ClassVar[str] = "text_completion"
    resume: ClassVar[Resume] = "prefill"

    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """The prompt as a user message; none if the prompt is not a single text."""
        prompt = _prompt(fields)
        return () if prompt is None else ({"role": "user", "content": prompt},)

    def replace_conversation(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The prompt, followed by the answer so far."""
        return {"prompt": "".join(str(message["content"]) for message in messages)}

    def why_unwatched(self, fields: Fields) -> str:
        """What is not one continuation of one text cannot be resumed."""
        if _prompt(fields) is None:
            return "prompt is not one text: several prompts, or tokens, cannot be resumed"
        for name in ("echo", "suffix"):
            if fields.get(name):
                return f"{name} is set: such an answer cannot be resumed"
        return super().why_unwatched(fields)

    def is_structured(self, fields: Fields) -> bool:  # not in this API
        return False

    def answer_now(self, fields: Fields) -> dict[str, Any]:  # no reasoning here
        return {}

    def read(self, event: Event) -> list[Piece]:
        """The text of a chunk, and its end apart from it."""
        if not self._first:
            self._first = {k: v for k, v in event.items() if k not in ("choices", "usage")}
        choices = event.get("choices") or []
        if len(choices) != 1 or choices[0].get("index", 0) != 0:
            return [Piece(EVENT, raw=event)]
        choice, text = choices[0], str(choices[0].get("text") or "")
        if not choice.get("finish_reason"):
            return [Piece(CONTENT, text, raw=event)]
        self.ended = True
        end = Piece(EVENT, raw={**event, "choices": [{**choice, "text": ""}]})
        if not text:
            return [end]
        text_only = {**event, "choices": [{**choice, "finish_reason": None}]}
        return [Piece(CONTENT, text, raw=text_only), end]

    def _repeats_role(self, raw: Event) -> bool:  # there are no roles
        return False

    def _chunk(self, event: Event, choice: Event, delta: Event) -> Event:
        text = {"text": delta.get("content", "")}
        made = {"index": 0, "finish_reason": None, "logprobs": None, **choice, **text}
        return {"object": "text_completion", **self._first, **event, "choices": [made]}

    def pieces(self, answer: Event) -> list[Piece]:
        match answer:
            case {"choices": [{"text": str(text)}]}:
                return [Piece(CONTENT, text)]
        return []

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        made = {**answer["choices"][0], "text": texts[CONTENT]}
        same = pick(first, "id", "created", "model")
        return {**answer, "choices": [made], **same}

    def own_answer(self, answer: OwnAnswer) -> Event:
        head = self._own_head(answer, "text_completion")
        whole = self._chunk(head, {"finish_reason": "stop"}, {"content": answer.text})
        whole["choices"][0]["finish_reason"] = "stop"
        return {**whole, "usage": self.estimate_usage(0, 0)}

    def _own_head(self, answer: OwnAnswer, kind: str) -> Event:
        return {**super()._own_head(answer, "text_completion"), "id": f"cmpl-{answer.id}"}


def _prompt(fields: Fields) -> str | None:
    """The prompt, if it is a single text."""
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    return prompt if isinstance(prompt, str) else None

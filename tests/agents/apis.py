"""The four APIs that the scripted service speaks: what a request asks for, and an answer in its words.

Each class reads one request. It also refuses what the real service is known to refuse, since an agent that is refused
has lost its session: an unsigned or changed thinking block, a tool call without a result, an empty text.
"""

import json

from tests.agents.ask import Ask, pieces_of, signature_of, sse, texts_in, tokens_of
from tests.agents.wire import Piece


class MessagesAsk(Ask):
    """Anthropic's messages."""

    overloaded = 529

    def tools(self):
        return [tool["name"] for tool in self.fields.get("tools") or ()]

    def conversation(self):
        return self.fields["messages"]

    def blocks(self):
        for message in self.fields["messages"]:
            content = message["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:  # fmt: skip
                yield message["role"], block

    def results(self):
        return ["".join(texts_in(block.get("content"))) for _, block in self.blocks() if block["type"] == "tool_result"]  # fmt: skip

    def refusal(self):
        called, answered = set(), set()
        for _, block in self.blocks():
            if block["type"] == "thinking" and block.get("signature") != signature_of(block["thinking"]):  # fmt: skip
                return "messages: Invalid `signature` in `thinking` block"
            if block["type"] == "text" and not block["text"]:
                return "messages: text content blocks must be non-empty"
            if block["type"] == "tool_use":
                called.add(block["id"])
            if block["type"] == "tool_result":
                answered.add(block["tool_use_id"])
        if called != answered:
            return (
                "messages: `tool_use` ids were found without `tool_result` blocks, or the other way"
            )
        edits = (self.fields.get("context_management") or {}).get("edits") or ()
        thinks = (self.fields.get("thinking") or {}).get("type") in ("enabled", "adaptive")
        if not thinks and any(edit["type"].startswith("clear_thinking") for edit in edits):
            return (
                "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive"
            )
        return ""

    def error_body(self, status, message):
        kinds = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}, "request_id": f"req_{self.serial}"}  # fmt: skip

    def content(self, reply):
        if reply.thinking:
            yield {"type": "thinking", "thinking": reply.thinking, "signature": signature_of(reply.thinking)}  # fmt: skip
        if reply.text:
            yield {"type": "text", "text": reply.text}
        for number, (name, arguments) in enumerate(reply.calls):
            yield {"type": "tool_use", "id": f"toolu_{self.serial}{number}", "name": name, "input": arguments}  # fmt: skip

    def whole(self, reply):
        read, said = self.usage(reply)
        return {
            "id": f"msg_{self.serial}", "type": "message", "role": "assistant",
            "model": self.fields["model"], "content": list(self.content(reply)),
            "stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": read, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": said},
        }  # fmt: skip

    def events(self, reply):
        whole = self.whole(reply)
        usage = {**whole["usage"], "output_tokens": 1}
        begun = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield self.event("message_start", message=begun)
        yield self.event("ping")
        for index, block in enumerate(whole["content"]):
            yield from self.block_events(index, block)
        yield self.event(
            "message_delta",
            delta={"stop_reason": whole["stop_reason"], "stop_sequence": None},
            usage=whole["usage"],
        )
        yield self.event("message_stop")

    def block_events(self, index, block):
        kind = block["type"]
        empty = {"tool_use": {"input": {}}, "text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}  # fmt: skip
        yield self.event("content_block_start", index=index, content_block={**block, **empty[kind]})
        if kind == "tool_use":
            deltas = [("input_json_delta", "partial_json", part) for part in pieces_of(json.dumps(block["input"]))]  # fmt: skip
        else:
            deltas = [(f"{kind}_delta", kind, part) for part in pieces_of(block[kind])]
        if kind == "thinking":
            deltas.append(("signature_delta", "signature", block["signature"]))
        for delta, name, part in deltas:
            yield self.event("content_block_delta", index=index, delta={"type": delta, name: part}, tokens=tokens_of(part))  # fmt: skip
        yield self.event("content_block_stop", index=index)

    def event(self, kind, *, tokens=0, **fields):
        return sse({"type": kind, **fields}, tokens, event=kind)


class ChatAsk(Ask):
    """OpenAI's chat completions."""

    def tools(self):
        return [tool["function"]["name"] for tool in self.fields.get("tools") or ()]

    def conversation(self):
        return self.fields["messages"]

    def results(self):
        return ["".join(texts_in(m.get("content"))) for m in self.fields["messages"] if m["role"] == "tool"]  # fmt: skip

    def refusal(self):
        open_calls = set()
        for message in self.fields["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                open_calls.discard(message["tool_call_id"])
            elif open_calls:
                return "an assistant message with 'tool_calls' must be followed by tool messages"
            open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
        return ""

    def message(self, reply):
        calls = [
            {"id": f"call_{self.serial}{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(reply.calls)
        ]  # fmt: skip
        message = {"role": "assistant", "content": reply.text or None}
        message |= {"reasoning_content": reply.thinking} if reply.thinking else {}
        return message | ({"tool_calls": calls} if calls else {})

    def frame(self, kind, choices, **more):
        return {"id": f"chatcmpl-{self.serial}", "object": kind, "created": 1700000000, "model": self.fields["model"], "choices": choices, **more}  # fmt: skip

    def counted(self, reply):
        read, said = self.usage(reply)
        return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}

    def whole(self, reply):
        finish = "tool_calls" if reply.calls else "stop"
        choice = {"index": 0, "message": self.message(reply), "logprobs": None, "finish_reason": finish}  # fmt: skip
        return self.frame("chat.completion", [choice], usage=self.counted(reply))

    def events(self, reply):
        message = self.message(reply)
        yield self.chunk({"role": "assistant", "content": ""})
        for name in ("reasoning_content", "content"):
            for part in pieces_of(message.get(name) or ""):
                yield self.chunk({name: part}, tokens_of(part))
        for index, call in enumerate(message.get("tool_calls") or ()):
            begun = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield self.chunk({"tool_calls": [begun]})
            for part in pieces_of(call["function"]["arguments"]):
                yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}, tokens_of(part))  # fmt: skip
        yield self.chunk({}, finish="tool_calls" if reply.calls else "stop")
        if (self.fields.get("stream_options") or {}).get("include_usage"):
            yield sse(self.frame("chat.completion.chunk", [], usage=self.counted(reply)))
        yield Piece(b"data: [DONE]\n\n")

    def chunk(self, delta, tokens=0, *, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse(self.frame("chat.completion.chunk", [choice]), tokens)


class ResponsesAsk(Ask):
    """OpenAI's responses."""

    def tools(self):
        given = [*(self.fields.get("tools") or ())]
        for item in self.conversation():
            if item.get("type") == "additional_tools":
                given += item["tools"]
        named = [t for tool in given for t in (tool["tools"] if tool["type"] == "namespace" else [tool])]  # fmt: skip
        return [tool.get("name", tool["type"]) for tool in named]

    def conversation(self):
        given = self.fields["input"]
        return [{"role": "user", "content": given}] if isinstance(given, str) else given

    def results(self):
        return ["".join(texts_in(item.get("output"))) for item in self.conversation() if str(item.get("type")).endswith("_call_output")]  # fmt: skip

    def refusal(self):
        items = self.conversation()
        called = {item["call_id"] for item in items if item.get("type") in ("function_call", "custom_tool_call")}  # fmt: skip
        answered = {item["call_id"] for item in items if str(item.get("type")).endswith("_call_output")}  # fmt: skip
        if called != answered:
            return "No tool output found for function call, or no call for an output"
        return ""

    def is_compaction(self):
        return self.conversation()[-1].get("type") == "compaction_trigger"

    def items(self, reply):
        if self.is_compaction():
            yield {
                "id": f"cmp_{self.serial}",
                "type": "compaction",
                "encrypted_content": signature_of(reply.text),
            }
            return
        if reply.thinking:
            yield {"id": f"rs_{self.serial}", "type": "reasoning", "summary": [{"type": "summary_text", "text": reply.thinking}], "encrypted_content": signature_of(reply.thinking)}  # fmt: skip
        if reply.text:
            part = {"type": "output_text", "text": reply.text, "annotations": []}
            yield {"id": f"msg_{self.serial}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}  # fmt: skip
        for number, (name, arguments) in enumerate(reply.calls):
            call = {"status": "completed", "call_id": f"call_{self.serial}{number}", "name": name}
            if isinstance(arguments, str):
                yield {"id": f"ctc_{self.serial}{number}", "type": "custom_tool_call", **call, "input": arguments}  # fmt: skip
            else:
                yield {"id": f"fc_{self.serial}{number}", "type": "function_call", **call, "arguments": json.dumps(arguments)}  # fmt: skip

    def whole(self, reply, status="completed"):
        read, said = self.usage(reply)
        usage = {"input_tokens": read, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": said, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": read + said}  # fmt: skip
        begun = status != "completed"
        return {
            "id": f"resp_{self.serial}", "object": "response", "created_at": 1700000000, "model": self.fields["model"],
            "status": status, "output": [] if begun else list(self.items(reply)), "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "instructions": None,
            "metadata": {}, "usage": None if begun else usage,
        }  # fmt: skip

    def events(self, reply):
        for number, (kind, fields, tokens) in enumerate(self.numbered(reply)):
            yield sse({"type": kind, "sequence_number": number, **fields}, tokens, event=kind)

    def numbered(self, reply):
        begun = {"response": self.whole(reply, "in_progress")}
        yield "response.created", begun, 0
        yield "response.in_progress", begun, 0
        for index, item in enumerate(self.items(reply)):
            place = {"output_index": index, "item_id": item["id"]}
            emptied = {"content": [], "summary": [], "arguments": "", "input": ""}
            empty = {**item, "status": "in_progress"} | {k: v for k, v in emptied.items() if k in item}  # fmt: skip
            empty.pop("encrypted_content", None)
            yield "response.output_item.added", {"output_index": index, "item": empty}, 0
            yield from getattr(self, f"{item['type']}_events")(item, place)
            yield "response.output_item.done", {"output_index": index, "item": item}, 0
        yield "response.completed", {"response": self.whole(reply)}, 0

    def message_events(self, item, place):
        part, place = item["content"][0], {**place, "content_index": 0}
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}, 0
        for text in pieces_of(part["text"]):
            yield "response.output_text.delta", {**place, "delta": text, "logprobs": []}, tokens_of(text)  # fmt: skip
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}, 0
        yield "response.content_part.done", {**place, "part": part}, 0

    def reasoning_events(self, item, place):
        part, place = item["summary"][0], {**place, "summary_index": 0}
        yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}, 0
        for text in pieces_of(part["text"]):
            yield "response.reasoning_summary_text.delta", {**place, "delta": text}, tokens_of(text)
        yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}, 0
        yield "response.reasoning_summary_part.done", {**place, "part": part}, 0

    def function_call_events(self, item, place):
        for text in pieces_of(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": text}, tokens_of(text)  # fmt: skip
        yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}, 0

    def compaction_events(self, item, place):
        return ()

    def custom_tool_call_events(self, item, place):
        for text in pieces_of(item["input"]):
            yield "response.custom_tool_call_input.delta", {**place, "delta": text}, tokens_of(text)
        yield "response.custom_tool_call_input.done", {**place, "input": item["input"]}, 0


class GeminiAsk(Ask):
    """Gemini's generateContent and streamGenerateContent."""

    @property
    def stream(self):
        return self.sent.path.endswith(":streamGenerateContent")

    def tools(self):
        return [f["name"] for tool in self.fields.get("tools") or () for f in tool.get("functionDeclarations") or ()]  # fmt: skip

    def conversation(self):
        return self.fields["contents"]

    def parts(self):
        return [part for content in self.fields["contents"] for part in content.get("parts") or ()]

    def results(self):
        return ["".join(texts_in(part["functionResponse"].get("response"))) for part in self.parts() if "functionResponse" in part]  # fmt: skip

    def refusal(self):
        called = sum("functionCall" in part for part in self.parts())
        if called != len(self.results()):
            return "the number of function response parts must be that of the function call parts"
        return ""

    def error_body(self, status, message):
        kinds = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        return {"error": {"code": status, "message": message, "status": kinds.get(status, "INTERNAL")}}  # fmt: skip

    def part_groups(self, reply):
        """The parts of each event."""
        for text in pieces_of(reply.thinking):
            yield {"text": text, "thought": True}, tokens_of(text)
        for text in pieces_of(reply.text):
            yield {"text": text}, tokens_of(text)
        for name, arguments in reply.calls:
            yield {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2lnbmVk"}, tokens_of(json.dumps(arguments))  # fmt: skip

    def frame(self, parts, reply, *, finish=""):
        read, said = self.usage(reply)
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0} | ({"finishReason": finish} if finish else {})  # fmt: skip
        usage = {"promptTokenCount": read, "candidatesTokenCount": said, "totalTokenCount": read + said}  # fmt: skip
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": f"resp-{self.serial}"}  # fmt: skip

    def whole(self, reply):
        parts = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
        parts += [{"text": reply.text}] if reply.text else []
        parts += [{"functionCall": {"name": n, "args": a}, "thoughtSignature": "c2lnbmVk"} for n, a in reply.calls]  # fmt: skip
        return self.frame(parts, reply, finish="STOP")

    def events(self, reply):
        for part, tokens in self.part_groups(reply):
            yield sse(self.frame([part], reply), tokens)
        yield sse(self.frame([{"text": ""}], reply, finish="STOP"))


APIS = {
    "/messages": MessagesAsk,
    "/chat/completions": ChatAsk,
    "/responses": ResponsesAsk,
    ":generateContent": GeminiAsk,
    ":streamGenerateContent": GeminiAsk,
}


def api_of(path):
    """The class that reads a request to this path; None if it is no model call."""
    return next((api for end, api in APIS.items() if path.endswith(end)), None)

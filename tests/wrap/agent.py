"""A tiny agent on the real openai package: asks what it is told, prints the answer, ends with its exit code."""

import json
import os
import sys

import openai

model, question, code = sys.argv[1:]
client = openai.OpenAI(max_retries=0)
parts = client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": question}], stream=True
)
print("".join(part.choices[0].delta.content or "" for part in parts if part.choices))
print(json.dumps({"base": os.environ["OPENAI_BASE_URL"], "models": [m.id for m in client.models.list()]}))  # fmt: skip
sys.exit(int(code))

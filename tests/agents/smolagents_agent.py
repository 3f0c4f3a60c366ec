"""An agent as people write it with smolagents; it runs in the environment in which smolagents is installed."""

import sys

from smolagents import CodeAgent, OpenAIModel

model = OpenAIModel(model_id="scripted-1")  # key and address are those of the environment
agent = CodeAgent(
    tools=[],
    model=model,
    additional_authorized_imports=["subprocess"],
    max_steps=40,
    stream_outputs=True,
    verbosity_level=0,
)
print(agent.run(sys.argv[1]))

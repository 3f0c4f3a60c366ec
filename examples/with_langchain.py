"""A LangChain agent that is given context with its question, and whose model cannot loop."""

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from millgate import Millgate
from millgate.integrations.langchain import MillgateRetriever
from millgate.integrations.langchain_agent import MillgateMiddleware

QUESTION = "How long does a refund take?"

with Millgate.open(":memory:") as gate:
    gate.add([{"id": "refunds", "text": "A refund takes five working days."}])
    print(MillgateRetriever(gate=gate, budget=500).invoke(QUESTION)[0].page_content)

    model = GenericFakeChatModel(messages=iter([AIMessage("Five working days.")]))  # or your own
    agent = create_agent(model, middleware=[MillgateMiddleware(gate)])
    for message in agent.invoke({"messages": [("user", QUESTION)]})["messages"]:
        print(message.type, "five working days" in message.text.lower())

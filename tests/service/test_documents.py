"""/v1/documents: what is added over HTTP."""


async def test_documents_may_be_turns_of_a_conversation(client):
    rows = [{"id": f"t{n}", "text": text} for n, text in enumerate(("by train?", "yes, at nine"))]
    body = {"documents": rows, "collection": "chat", "kind": "conversation"}
    assert (await client.post("/v1/documents", json=body)).json()["documents"] == 2
    found = (await client.get("/v1/documents/t1?collection=chat")).json()
    assert found["chunks"][0]["metadata"]["kind"] == "conversation"


async def test_turns_may_be_said_to_be_documents(client):
    rows = [{"id": f"t{n}", "text": f"[{n + 1} May] Ann: words"} for n in range(9)]
    body = {"documents": rows, "collection": "log", "kind": "documents"}
    assert (await client.post("/v1/documents", json=body)).json()["documents"] == 9
    found = (await client.get("/v1/documents/t1?collection=log")).json()
    assert found["chunks"][0]["metadata"]["kind"] == "documents"


async def test_an_unknown_kind_is_refused(client):
    body = {"documents": [{"text": "hello"}], "kind": "poem"}
    assert (await client.post("/v1/documents", json=body)).status_code == 422

"""Internal: Millgate over HTTP, as a FastAPI app under uvicorn.

Start with app.py, which puts the parts together; state.py is what they share. `edge/` is who may come in:
edge/admission.py is what every request passes (caller, limits, body, deadline) before a route. `observe/` is what is
known of a request and of a call, and its log, metrics, spans and trace. Neither knows what is above it: `routes/` with
one file a resource, `proxy/` with the model APIs, `dashboard/` with the pages. server.py runs it.
"""

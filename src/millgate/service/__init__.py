"""Internal: Millgate over HTTP, as a FastAPI app under uvicorn.

It may import everything but `cli` and `evaluate`. Start with app.py, which puts the parts together on base.py;
admission.py is what every request passes (caller, limits, body, deadline) before a route. `routes/` has one file a
resource, `proxy/` the model APIs, `dashboard/` the pages, `wrap/` the gateway beside one agent; server.py and
protocol.py run it.
"""

"""Internal: adapters to models and search services. Each module's `...Policy` holds its settings.

embed.py chooses an embedder (static, encoder, remote), grade.py is the grader that asks a language model, search.py
looks outside. http_json.py alone speaks HTTP. Start with embed.py. What is heavy or an extra is
imported when it is first used.
"""

"""Internal: the configuration files of MCP clients, for `millgate mcp install`.

clients.py knows where each client keeps its servers, install.py writes an entry and takes it out again, json_text.py
and toml_text.py change only their own lines of a file. It may import `settings` and `errors`.
"""

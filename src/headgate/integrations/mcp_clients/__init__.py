"""MCP clients: where each keeps its configuration, and changing one entry of it without touching the rest."""

"""Internal: the dashboard, pages rendered on the server that need neither a network nor a build step.

Each page has a file with its route; app.py mounts them. route.py turns errors into pages and checks forms, render.py
fills the templates, cookies.py keeps the key of the person who is signed in. Pages read through the same gate as the
HTTP routes, and show only what the caller's tenant has.
"""

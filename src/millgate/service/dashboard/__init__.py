"""Internal: the dashboard, pages rendered on the server that need neither a network nor a build step.

Each view has a file with its routes; app.py mounts them, and page.py is how every page is made. Pages read through the
same gate as the HTTP routes, and show only what the caller's tenant has.
"""

"""Internal: operations on a store folder or database, behind `millgate store` and its siblings.

Back up, restore, export, import, check, compact, embed, and find out what is wrong. It may import the gateway and the
stores, and not the service. Each operation is one file; doctor.py and status.py only look.
"""

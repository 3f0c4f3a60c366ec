"""Internal: the derived indexes of a store. They follow its change feed and can be deleted: the store is the truth.

It may know the text, rank and protocol packages, and no concrete store. Start with indexes.py (all collections of a
store), then collection.py (one of them) and snapshot.py (what ranking reads). Below them a collection is a list of
segments: segment.py builds one from chunks, files.py and folder.py save it, merging.py makes one of several.

Two packages are imported only if a store needs them: large/ (collections too large for a process) and shared/ (ready
indexes that gateways copy from each other).
"""

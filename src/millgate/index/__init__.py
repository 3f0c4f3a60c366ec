"""Internal: the derived indexes of a store. They follow its change feed and can be deleted: the store is the truth.

It may know the text, ranking and protocol packages, and no concrete store. From the outside in, each file uses those
below it; read them in this order:

    indexes.py            all collections of a store, and the thread that follows their feeds
    collection.py         one collection: follows its feed, saves, hands out snapshots
      snapshot.py         what ranking reads; collection_kind.py tells conversations and languages
      segment_list.py     a batch of changes becomes a segment; when segments are merged
        tokenized_batch.py  chunks are read: terms, names and capitals
        merging.py        one segment of several, in bounded memory, and its file
        segment.py        the postings of a run of chunks, and which of these are dead
      folder.py, files.py the same segments on disk
    vectors.py            embeddings and the nearest to a query
    candidates.py         what an engine of the user's own brings for a query, in place of all this
    posting_list.py, arrays.py  lists of postings, and the few array functions that all of this is made of

Postings as plain dicts were not tried: they could not be read from a file as they are, and every process would build
them again. So segments are arrays, and the rest is what follows from files: changes come in as further segments, small
ones are merged, dead chunks are left out, and damage is noticed.

Start with segment.py to see what an index is, and with indexes.py to see who asks for it.
"""

"""Internal: collections with more than `index.max_chunks` chunks (5 million unless set), on PostgreSQL alone.

The index of an ordinary collection takes 1.8 GB a million chunks of each gateway, mapped from disk. Here the database
keeps the postings (3.8 GB a million chunks), and a gateway holds nothing but a cache: a request over 1.1 million chunks
takes 29 ms of CPU, client and server together, and finds .745 of the evidence where an ordinary index finds .747
(docs/figures.md). `Indexes` opens LargeCollections when it first meets a large collection, and nothing else
imports this package, save `millgate store embed`.

Start with narrowed.py. blocks.py writes the postings of a batch; candidates.py picks chunks for a query;
candidate_snapshot.py lets the usual ranking read them.
"""

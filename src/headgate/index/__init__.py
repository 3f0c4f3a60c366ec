"""The derived index: postings that follow a store's change feed, and can always be rebuilt from it."""

"""Internal: work that runs elsewhere: in threads, on a loop, or in a part of the user's own."""

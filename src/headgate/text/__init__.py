"""Pure text mathematics: knows none of the nouns, does no I/O."""

"""Knowledge edges and their paths; the kernel: slices of a conversation and their admissibility."""

"""Numeric kernels of ranking: arrays in, arrays out, over any postings that follow the protocol."""

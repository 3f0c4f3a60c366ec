"""Evaluation on labeled data: how well the stages and the guard do, in numbers."""

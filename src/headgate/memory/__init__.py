"""Recall from many providers; facts and the trust they earn; turns of conversations."""

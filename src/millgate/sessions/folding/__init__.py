"""Folding: say it once. What already stands in the window becomes a pointer to it, and `expand` undoes it exactly.

`folder.py` has the laws. Start there, then read `pointer.py`.
"""

from millgate.sessions.folding.folder import Folder, expand, fold
from millgate.sessions.folding.report import Fold, FoldReport

__all__ = ["Fold", "FoldReport", "Folder", "expand", "fold"]

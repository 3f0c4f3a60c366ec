"""Field docs: the docstrings below the fields of a class, read from its source when somebody wants to see them."""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent


@cache
def field_docs(noun: type) -> dict[str, str]:
    """The docstring below each field of a class, those that it inherits in the package included."""
    package = noun.__module__.partition(".")[0]
    ours = [base for base in reversed(noun.__mro__) if base.__module__.startswith(package)]
    return {name: doc for base in ours for name, doc in _own_docs(base).items()}


def _own_docs(noun: type) -> dict[str, str]:
    body = ast.parse(dedent(inspect.getsource(noun))).body[0].body  # type: ignore[attr-defined]
    return {
        ast.unparse(field.target): inspect.cleandoc(str(doc.value.value))
        for field, doc in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }

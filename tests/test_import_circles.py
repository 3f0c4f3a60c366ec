"""No circle of imports, neither between packages nor inside one; imports inside functions count."""

import ast
from pathlib import Path

import millgate

ROOT = Path(millgate.__file__).parent


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """The modules of the package that a module imports, at its top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known or {node.module}
    return found & known


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set[str](), [start]
        while todo:
            fresh = graph[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        reach[start] = seen
    found: list[set[str]] = []
    for name in graph:
        circle = {name} | {other for other in reach[name] if name in reach[other]}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == [{"b", "c"}]


def test_an_import_inside_a_function_counts():
    tree = ast.parse("def f():\n    from millgate.text import terms\n    import millgate.errors\n")
    known = {"millgate.text", "millgate.text.terms", "millgate.errors"}
    assert imported(tree, known) == {"millgate.text.terms", "millgate.errors"}


def test_no_modules_import_each_other_in_a_circle():
    paths = {module_name(path): path for path in ROOT.rglob("*.py")}
    known = set(paths)
    graph = {
        name: imported(ast.parse(path.read_text("utf-8")), known) - {name}
        for name, path in paths.items()
    }
    assert [sorted(circle) for circle in circles(graph)] == []

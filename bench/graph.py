"""How long following knowledge takes: CPU p50 and p95 of a traversal, by store and by graph.

    python bench/graph.py [--edges 200000] [--hops 3] [--queries 400]

"hubs" draws its nodes from a Zipf-like law and starts at nodes as often as edges touch them; "sparse" draws them
evenly over twice as many nodes, so that the third hop is reached; "star" hangs all edges on one node and starts there.
"""

import argparse
import random
import tempfile
from pathlib import Path
from time import process_time

from headgate.graph.knowledge import GraphPolicy, traverse
from headgate.protocols import Store
from headgate.stores.memory.store import MemoryStore
from headgate.stores.sqlite.store import SqliteStore
from headgate.types import Edge

PREDICATES = ("depends_on", "uses", "part_of", "mentions", "links_to", "author")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--queries", type=int, default=400)
    args = parser.parse_args()
    policy = GraphPolicy(max_hops=args.hops)
    print(f"{args.edges} edges, {args.hops} hops, {args.queries} starts, CPU ms a traversal")
    print(f"{'store':8} {'graph':7} {'p50':>7} {'p95':>7} {'max':>7} {'paths':>6} {'longest':>8}")
    for kind in ("hubs", "sparse", "star"):
        edges, starts = graph(kind, args.edges, args.queries)
        for name, store in stores():
            for i in range(0, len(edges), 10_000):
                store.link("bench", edges[i : i + 10_000])
            report(name, kind, measure(store, starts, policy))
            store.close()


def stores():
    yield "memory", MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        yield "sqlite", SqliteStore(Path(folder))


def graph(kind: str, count: int, queries: int) -> tuple[list[Edge], list[str]]:
    dice = random.Random(7)
    size = {"hubs": count // 4, "sparse": count, "star": count}[kind]

    def node() -> str:
        place = size ** dice.random() if kind == "hubs" else dice.randrange(size)
        return f"n{int(place)}"

    edges = [
        Edge("hub" if kind == "star" else node(), dice.choice(PREDICATES), node(), dice.random())
        for _ in range(count)
    ]
    if kind == "star":
        return edges, ["hub"] * queries
    return edges, [dice.choice(edges).source for _ in range(queries)]


def measure(store: Store, starts: list[str], policy: GraphPolicy):
    for start in starts:  # the in-memory store sorts a node's edges when it is first asked
        traverse(store, start, policy, tenant="bench")
    times, found, longest = [], 0, 0
    for start in starts:
        began = process_time()
        paths = traverse(store, start, policy, tenant="bench")
        times.append((process_time() - began) * 1000)
        found += len(paths)
        longest = max(longest, *(len(path.edges) for path in paths), 0)
    return sorted(times), found / len(starts), longest


def report(name: str, kind: str, measured) -> None:
    times, paths, longest = measured
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    print(f"{name:8} {kind:7} {p50:7.3f} {p95:7.3f} {times[-1]:7.3f} {paths:6.1f} {longest:8}")


if __name__ == "__main__":
    main()

"""A Citus cluster under load: shards moved, a worker added, a worker killed; a replica killed; tenants by the thousand.

    make bench-citus ARGS="equal DIR"      contexts of a labeled set over the cluster and over SQLite, byte by byte
    make bench-citus ARGS="move"           a loaded tenant's shard moves, then shards move to a new worker: 2 minutes
    make bench-citus ARGS="kill"           one worker killed and started again under two gateways: 1 minute
    make bench-citus ARGS="distribute"     a store that is in use is distributed (needs a fresh bed)
    make bench-citus ARGS="replica"        the read replica of a plain PostgreSQL killed under readers: 1 minute
    make bench-citus ARGS="tenants"        --tenants 10000 --active 500 --requests 20: traces lost, what upkeep costs
    make bench-citus ARGS="cost"           CPU of client and servers a request, on the cluster and on PostgreSQL

The cluster is that of `bench/citus.sh build` and `bench/citus.sh start`, with the same FOLDER and PORT; `move` adds a
worker to it. replica, and tenants and cost without --cluster, start a server of their own from the packages of the
tests.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import psycopg
from bench.fixtures.services import tree_cpu_seconds
from tests.postgres_server import running_server

from millgate.errors import MillgateError
from millgate.evaluate.labeled import sets
from millgate.gateway import Millgate
from millgate.pipeline.trace_upkeep import TraceUpkeep
from millgate.stores.postgres.citus import distribute
from millgate.stores.postgres.migrations import migrate_postgres
from millgate.stores.postgres.store import PostgresStore
from millgate.types.policy import TracePolicy

BED = Path(__file__).parent / "citus.sh"
FOLDER = Path(os.environ.get("FOLDER", "/tmp/millgate-citus"))
DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "autovacuum": "on"}
WORDS = ["".join(random.Random(n).choices("abcdefghilmnoprstuv", k=2 + n % 8)) for n in range(5000)]
_SHARD = """
SELECT shardid, nodename, nodeport FROM pg_dist_shard_placement
WHERE shardid = get_shard_id_for_distribution_column('millgate.collections', %s::text)
"""
_WORKERS = """
SELECT nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards AND isactive AND groupid > 0 ORDER BY nodeport
"""
_PLACED = """
SELECT nodeport, count(*) FROM pg_dist_shard_placement p JOIN pg_dist_shard s USING (shardid)
WHERE logicalrelid = 'millgate.collections'::regclass GROUP BY 1 ORDER BY 1
"""


def bed(*arguments):
    done = subprocess.run([str(BED), *map(str, arguments)], check=True, capture_output=True, text=True)  # fmt: skip
    return done.stdout


def addresses():
    """Of the owner of the tables, and of gateways."""
    lines = [line.partition("#")[0].strip() for line in bed("addresses").splitlines()]
    return [line.partition("=")[2] for line in lines]


def cluster(*, spread=True):
    """The same two, with a store there."""
    owner, app = addresses()
    migrate_postgres(owner, dry_run=False, role="app")
    if spread:
        store = PostgresStore(owner)
        with store.session() as connection:
            distribute(connection, store.address)
        store.close()
    return owner, app


def text(rng, number):
    return f"{' '.join(rng.choices(WORDS, k=80))} {number}"


class Load:
    """Writers and readers in threads, each for a tenant of its own; what was acknowledged, refused and slow."""

    def __init__(self, gate, tenants):
        self.gates = {tenant: gate.for_tenant(tenant) for tenant in tenants}
        self.added = {tenant: [] for tenant in tenants}
        self.refused, self.wrong, self.answers, self.slowest = [], 0, 0, 0.0
        self.done = threading.Event()
        works = [self.write, self.read]
        self.threads = [threading.Thread(target=w, args=(t,)) for t in tenants for w in works]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join()

    def call(self, work):
        began = time.monotonic()
        try:
            return work()
        except MillgateError as error:
            self.refused.append(f"{type(error).__name__}: {error}")
            return None
        finally:
            self.slowest = max(self.slowest, time.monotonic() - began)

    def write(self, tenant):
        step = 0
        while not self.done.is_set():
            name = f"{tenant}-{step}"
            rows = [{"id": name, "text": f"The code of {name} is {name}."}]
            if self.call(lambda rows=rows: self.gates[tenant].add(rows)):
                self.added[tenant].append(name)
            step += 1

    def read(self, tenant):
        while not self.done.is_set():
            if not self.added[tenant]:
                time.sleep(0.01)
                continue
            name = random.choice(self.added[tenant])
            asked = f"what is the code of {name}?"
            found = self.call(lambda asked=asked: self.gates[tenant].context(asked, k=3))
            if found is not None:
                self.answers += 1
                self.wrong += name not in found.text

    def report(self, what):
        lost = sum(
            len(set(names) - self.gates[tenant].store.digests(tenant, "main").keys())
            for tenant, names in self.added.items()
        )
        seqs = {
            tenant: [c.seq for c in self.gates[tenant].store.changes(tenant, "main", 0, 10**6)]
            for tenant in self.added
        }
        gaps = sum(
            found != list(range(1, len(found) + 1)) for found in seqs.values()
        )  # nothing is ever changed twice here
        print(f"{what}: {sum(map(len, self.added.values())):,} writes acknowledged, {lost} lost, "
              f"{gaps} feeds with gaps; {self.answers:,} answers, {self.wrong} wrong; {len(self.refused)} refused; "
              f"slowest call {self.slowest:.2f} s")  # fmt: skip
        for line in sorted(set(self.refused))[:5]:
            print("   ", line[:200])


def compare_contexts(folder, most):
    _, app = cluster()
    for number, labeled in enumerate(sets(Path(folder))):
        with tempfile.TemporaryDirectory() as temporary:
            tenant = f"equal{number}-{os.getpid()}"
            one = Millgate.open(f"{temporary}/sqlite", tenant=tenant)
            two = Millgate.open(f"{app}?cache={temporary}/cache", tenant=tenant)
            # fences are made with a tenant's secret
            two.store.put_secrets(tenant, one.store.secrets(tenant))
            for gate in (one, two):
                gate.add(labeled.rows)
            asked = labeled.queries[:: max(1, len(labeled.queries) // most)][:most]
            differ = 0
            for query in asked:
                found = []
                for gate in (one, two):
                    context = gate.context(query["text"], budget=1000, collection=query["collection"])  # fmt: skip
                    scores = [(c.chunk.id, c.score) for c in context.trace.candidates]
                    found.append((context.text, scores))
                differ += found[0] != found[1]
            one.close(), two.close()
        print(f"{labeled.name:16} {len(labeled.rows):7,} passages  {len(asked):4} contexts  {differ} differ")  # fmt: skip


def move_shards(*, grow=True):
    owner, app = cluster()
    tenants = [f"load{n}" for n in range(4)]
    with (
        tempfile.TemporaryDirectory() as temporary,
        Millgate.open(f"{app}?cache={temporary}") as gate,
        psycopg.connect(owner, autocommit=True) as admin,
    ):
        with Load(gate, tenants) as load:
            time.sleep(5)
            shard, *here = admin.execute(_SHARD, (tenants[0],)).fetchone()
            there = next(w for w in admin.execute(_WORKERS).fetchall() if list(w) != here)
            began = time.monotonic()
            move = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'auto')"
            admin.execute(move, (shard, *here, *there))
            print(f"the shard of {tenants[0]} moved from {here} to {list(there)} in {time.monotonic() - began:.1f} s")  # fmt: skip
            time.sleep(3)
        load.report("online move")
        with Load(gate, [f"again{n}" for n in range(4)]) as load:
            time.sleep(3)
            if grow:
                print(bed("grow").strip())
            began = time.monotonic()
            # as superuser: background jobs are the extension's
            for statement in ("SELECT citus_rebalance_start()", "SELECT citus_rebalance_wait()"):
                bed("sql", 0, statement)
            placed = admin.execute(_PLACED).fetchall()
            print(f"rebalanced in {time.monotonic() - began:.1f} s; shard groups by port: {dict(placed)}")  # fmt: skip
            time.sleep(3)
        load.report("rebalance to a third worker")


# -- a worker killed under gateways ------------------------------------------------------------------------------------


@contextmanager
def gateway(address, port):
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"MILLGATE_STORE": f"{address}?cache={cache}"}
        command = [sys.executable, "-m", "millgate", "serve", "--port", str(port)]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            while ask(port, "", "/healthz")[0] != 200:
                time.sleep(0.1)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def ask(port, key, path, body=None):
    """Status, seconds, headers and body of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})  # fmt: skip
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, found, read = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        status, found, read = error.code, error.headers, error.read()
    except OSError as error:
        status, found, read = 0, {}, str(error).encode()
    return status, time.monotonic() - began, found, read


def kill_worker():
    owner, app = cluster()
    keys, homes = {}, {}
    with psycopg.connect(owner) as admin:
        for n in range(8):
            tenant = f"kill{n}"
            homes[tenant] = admin.execute(_SHARD, (tenant,)).fetchone()[2]
    base = int(os.environ.get("PORT", "25500"))
    victim = max(set(homes.values()), key=list(homes.values()).count)
    stays = next(t for t in homes if homes[t] != victim)
    falls = next(t for t in homes if homes[t] == victim)
    with tempfile.TemporaryDirectory() as temporary:
        for tenant in (stays, falls):
            with Millgate.open(f"{app}?cache={temporary}", tenant=tenant) as gate:
                keys[tenant] = gate.keys.create(("read", "write")).token
                spare = gate.keys.create(("read",)).key.id
                gate.add([{"id": "policy", "text": f"Refunds of {tenant} take 14 days."}])
    question = {"query": "how long do refunds take?"}

    def measure(what, port, tenant, path="/v1/context", body=None, times=30):
        found = [ask(port, keys[tenant], path, body or question) for _ in range(times)]
        states = {status: sum(1 for f in found if f[0] == status) for status in {f[0] for f in found}}  # fmt: skip
        retry = {f[2].get("Retry-After") for f in found if f[0] == 503}
        empty = sum(1 for f in found if f[0] == 200 and path.endswith("context") and not json.loads(f[3])["text"])  # fmt: skip
        times_s = sorted(f[1] for f in found)
        print(f"{what:44} {states} median {times_s[len(found) // 2]:.3f} s, slowest {times_s[-1]:.3f} s"
              f"{f', Retry-After {sorted(retry)}' if retry else ''}{f', {empty} EMPTY' if empty else ''}")  # fmt: skip

    with gateway(app, 8651), ExitStack() as second:
        for tenant in (stays, falls):
            measure(f"before: {tenant} on {homes[tenant]}", 8651, tenant)
        bed("node", victim - base, "kill")
        print(f"worker {victim} was killed")
        measure(f"{falls}, whose worker is dead", 8651, falls)
        measure(f"{stays}, on the other", 8651, stays)
        measure(f"{falls} adds", 8651, falls, "/v1/documents", {"documents": [{"id": "b", "text": "b"}]}, 5)  # fmt: skip
        measure(f"{stays} adds", 8651, stays, "/v1/documents", {"documents": [{"id": "b", "text": "b"}]}, 5)  # fmt: skip
        status, seconds, _, body = ask(8651, "", "/readyz")
        print(f"readyz: {status} in {seconds:.2f} s: {body.decode()}")
        second.enter_context(gateway(app, 8652))
        measure(f"a gateway started now: {stays}", 8652, stays)
        measure(f"... {stays} adds", 8652, stays, "/v1/documents", {"documents": [{"id": "c", "text": "c"}]}, 5)  # fmt: skip
        measure(f"... {falls}", 8652, falls)
        env = os.environ | {"MILLGATE_STORE": app}
        for command in (["keys", "revoke", spare, "--tenant", falls], ["keys", "create", "--tenant", "newcomer"]):  # fmt: skip
            done = subprocess.run([sys.executable, "-m", "millgate", *command], env=env, check=False, capture_output=True, text=True)  # fmt: skip
            print(f"millgate {' '.join(command[:2])}: exit {done.returncode} {done.stderr.strip()[:120]}")  # fmt: skip
        bed("node", victim - base, "start")
        began = time.monotonic()
        while ask(8651, keys[falls], "/v1/context", question)[0] != 200:
            time.sleep(0.05)
        print(f"worker {victim} was started: {falls} was served after {time.monotonic() - began:.2f} s")  # fmt: skip
        measure(f"{falls} again", 8651, falls)


def distribute_in_use():
    owner, app = cluster(spread=False)
    with tempfile.TemporaryDirectory() as temporary, Millgate.open(f"{app}?cache={temporary}") as gate:  # fmt: skip
        with Load(gate, [f"spread{n}" for n in range(6)]) as load:
            time.sleep(5)
            store = PostgresStore(owner)
            began = time.monotonic()
            with store.session() as connection:
                count = distribute(connection, store.address)
            print(f"{count} tables were distributed in {time.monotonic() - began:.1f} s")
            store.close()
            time.sleep(5)
        load.report("distribute under writers and readers")


# -- one server --------------------------------------------------------------------------------------------------------


def kill_replica(requests):
    with running_server(options=DURABLE) as server, tempfile.TemporaryDirectory() as temporary:
        PostgresStore(server.url).close()
        replica = server.clone()
        try:
            address = f"{server.url}?cache={temporary}&replica=127.0.0.1:{replica.port}"
            with Millgate.open(address) as gate:
                rng = random.Random(7)
                gate.add([{"id": f"r{n}", "text": text(rng, n)} for n in range(2000)])
                while gate.store._replicas._choose() is None:
                    gate.context(text(rng, 0)[:60])
                    time.sleep(0.05)

                def ask_many():
                    times = []
                    for _ in range(requests):
                        query = " ".join(rng.choices(WORDS, k=6))
                        began = time.monotonic()
                        context = gate.context(query, k=3)
                        times.append(time.monotonic() - began)
                        assert not context.degraded, context.degraded
                    return sorted(times)

                before = ask_many()
                replica.stop("immediate")
                after = ask_many()
                for name, times in (("with the replica", before), ("after it was killed", after)):
                    print(f"{name:20} {requests} requests: median {1000 * statistics.median(times):.1f} ms, "
                          f"slowest {1000 * times[-1]:.1f} ms")  # fmt: skip
                print(f"median {statistics.median(after) / statistics.median(before):.2f} times, "
                      f"slowest {after[-1] / before[-1]:.2f} times")  # fmt: skip
                replica.start()
        finally:
            replica.delete()


@contextmanager
def database(on_cluster):
    """The address of gateways, and what gives the CPU seconds of all servers."""
    if on_cluster:
        _, app = cluster()
        pids = [int((node / "postmaster.pid").read_text().split()[0]) for node in FOLDER.glob("node[0-9]*") if node.is_dir()]  # fmt: skip
        yield app, lambda: sum(map(tree_cpu_seconds, pids))
        return
    with running_server(options=DURABLE) as server:
        pid = int((server.data / "postmaster.pid").read_text().split()[0])
        yield server.url, lambda: tree_cpu_seconds(pid)


def thread_seconds(name):
    """CPU seconds of the threads of this process that have this name."""
    total = 0.0
    for thread in threading.enumerate():
        if thread.name == name:
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2]
            user, system = fields.split()[11:13]
            total += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total


_SAME_TRACES = """
INSERT INTO millgate.traces SELECT %s, id, number, created, size, summary, body FROM (
  SELECT * FROM unnest(%s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::text[], %s::bytea[])
  AS one (id, number, created, size, summary, body)) rows ON CONFLICT DO NOTHING
"""


def copy_traces(store, tenant, others):
    """Give other tenants the traces of one, and their names to the store."""
    sql = "SELECT id, number, created, size, summary, body FROM millgate.traces WHERE tenant = %s"
    columns = [list(column) for column in zip(*store.query(tenant, sql, (tenant,)), strict=True)]
    for other in others:
        store._tenants.add(other)
        store.execute(other, _SAME_TRACES, (other, *columns))


def ask_tenants(count, active, requests, on_cluster):
    """Some of many tenants ask in turn, and the others have as many traces: what is lost, and what upkeep takes."""
    rng = random.Random(7)
    with ExitStack() as stack:
        address, servers = stack.enter_context(database(on_cluster))
        temporary = stack.enter_context(tempfile.TemporaryDirectory())
        gate = Millgate.open(f"{address}?cache={temporary}&pool_size=4")
        tenants = [f"tenant{n}" for n in range(count)]
        for tenant in tenants[:active]:
            rows = [{"id": f"d{n}", "text": text(rng, n)} for n in range(2)]
            gate.for_tenant(tenant).add(rows)

        def ask_all():
            degraded = 0
            for tenant in tenants[:active]:
                context = gate.for_tenant(tenant).context(" ".join(rng.choices(WORDS, k=5)), k=2)
                degraded += bool(context.degraded)
            return degraded

        degraded = sum(ask_all() for _ in range(2))
        gate.traces()
        began = time.monotonic()
        copy_traces(gate.store, tenants[0], tenants[active:])
        print(
            f"{count:,} tenants, {active:,} of which ask; made in {time.monotonic() - began:.0f} s"
        )
        began, client, there = time.monotonic(), time.process_time(), servers()
        spent = thread_seconds("millgate-upkeep")
        degraded += sum(ask_all() for _ in range(requests - 2))
        asked = active * (requests - 2)
        client, there = time.process_time() - client, servers() - there
        upkeep = thread_seconds("millgate-upkeep") - spent
        gate.traces()
        kept = sum(len(gate.for_tenant(t).traces(limit=10_000)) for t in tenants[:active])
        print(f"{asked:,} requests in {time.monotonic() - began:.0f} s: {1000 * client / asked:.1f} ms of client and "
              f"{1000 * there / asked:.1f} ms of server CPU each; {degraded} degraded; {gate.lost_writes} traces lost, "
              f"{kept:,} of {active * requests:,} kept; upkeep meanwhile {upkeep:.2f} s of CPU")  # fmt: skip
        gate.close()
        store = PostgresStore(address)
        with store._pool.directory(write=True) as connection:
            connection.execute("UPDATE millgate.store SET clock = clock - 7200")
        before, own, began = servers(), time.process_time(), time.monotonic()
        TraceUpkeep(store, TracePolicy())._attempt(None)
        own, before = time.process_time() - own, servers() - before
        store.close()
        every = count * requests * (client + there) / asked
        print(f"a round over {count:,} tenants: {own:.1f} s of client and {before:.1f} s of server CPU, "
              f"{time.monotonic() - began:.1f} s; {100 * (own + before) / every:.2f} % of what {count * requests:,} such "
              f"requests take")  # fmt: skip


def measure_cost(tenants, on_cluster):
    rng = random.Random(7)
    with ExitStack() as stack:
        address, servers = stack.enter_context(database(on_cluster))
        temporary = stack.enter_context(tempfile.TemporaryDirectory())
        with Millgate.open(f"{address}?cache={temporary}") as gate:
            names = [f"cost{n}" for n in range(tenants)]

            def measure(what, work):
                client, there = time.process_time(), servers()
                for name in names:
                    work(gate.for_tenant(name))
                print(f"{what:30} {1000 * (time.process_time() - client) / tenants:6.1f} ms of client and "
                      f"{1000 * (servers() - there) / tenants:6.1f} ms of server CPU")  # fmt: skip

            measure("add 20 documents", lambda g: g.add([{"id": f"d{n}", "text": text(rng, n)} for n in range(20)]))  # fmt: skip
            for what in ("a tenant's first context", "a new question", "another"):
                measure(what, lambda g: g.context(" ".join(rng.choices(WORDS, k=5)), k=3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("what", choices=["equal", "move", "kill", "distribute", "replica", "tenants", "cost"])  # fmt: skip
    parser.add_argument("folder", nargs="?", default=".bench/labeled")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--tenants", type=int)
    parser.add_argument("--active", type=int, default=500)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--cluster", action="store_true")
    given = parser.parse_args()
    match given.what:
        case "equal":
            compare_contexts(given.folder, given.queries)
        case "move":
            move_shards()
        case "kill":
            kill_worker()
        case "distribute":
            distribute_in_use()
        case "replica":
            kill_replica(given.requests * 10)
        case "tenants":
            ask_tenants(given.tenants or 10_000, given.active, given.requests, given.cluster)
        case "cost":
            measure_cost(given.tenants or 100, given.cluster)


if __name__ == "__main__":
    main()

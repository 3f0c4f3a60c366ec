"""The engine: from a request to the best context that fits, with the trace of how.

decide ─▶ retrieve ─▶ propagate ─▶ penalize ─▶ (expand once) ─▶ gate ─▶ grade ─▶ compose
                                                                         └─▶ search, then a person

`Engine.build` names every stage, in order. Behind it, in the same order, `RequestRun` has a method for each, which
calls the stage with its policy and resources and records its step. A stage that fails ends its `with` block
(recorder.py); what follows the block stands in for it. What a stage needs from an earlier one is handed in as data; no
stage calls another. The whole request runs in one thread. Only memory providers, a grader of the caller's own and a
search are awaited, on an event loop (calls/loop.py).
"""

from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from millgate.calls.lazy import lazy_property
from millgate.calls.loop import LoopCalls
from millgate.calls.parts import Rest, await_part
from millgate.errors import (
    ConfigError,
    NotReady,
    UpstreamError,
    UpstreamTimeout,
)
from millgate.knowledge.paths import anchors, find_nodes, neighborhood, paths
from millgate.knowledge.project import project_of
from millgate.knowledge.providers import Recollection
from millgate.knowledge.review import ReviewQueue
from millgate.pipeline.recorder import TraceRecorder
from millgate.pipeline.resources import Policies, Resources, check_limits
from millgate.pipeline.stages.compose import Composed, compose
from millgate.pipeline.stages.decide import decide
from millgate.pipeline.stages.expand import (
    find_adjacent,
    fuse,
    variants,
    wants_more,
)
from millgate.pipeline.stages.gate import Gated, Shown, gate, measure_all
from millgate.pipeline.stages.grade import (
    Action,
    Graded,
    Verdict,
    ask_grader,
    bands_of,
    chance_of_any,
    decide_shown,
    grade,
    outside_candidates,
    pass_ungraded,
)
from millgate.pipeline.stages.penalize import is_in_window, is_shown, penalize
from millgate.pipeline.stages.propagate import join_by_id, merge, name_limit, propagate
from millgate.pipeline.stages.retrieve import retrieve
from millgate.protocols import Snapshot
from millgate.published.self_reference import expansion_depth
from millgate.ranking.model import Chance, chances, evidence_shares, ranking_score, read_model
from millgate.ranking.question import Question, ask, match_known, read_query
from millgate.ranking.score import (
    PropagationSeeds,
    edge_charges,
    find_seeds,
    seed_words,
    with_written_names,
)
from millgate.text.fence import fence_cost, fence_secret
from millgate.text.meant import did_you_mean
from millgate.text.wanted import read_wanted
from millgate.types import (
    SIDE_SOURCES,
    Candidate,
    Context,
    Edge,
    Plan,
    Report,
    Request,
    Sifted,
    Strategy,
    Trace,
)
from millgate.types.notes import Fate, NoteCode, Stage

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")
Candidates = Sequence[Candidate]


class Engine:
    """The pipeline over one store. Safe to share between threads and event loops."""

    def __init__(self, resources: Resources, policy: Policies) -> None:
        self.resources, self.policy = resources, policy

    def build(self, request: Request, calls: LoopCalls) -> Context:
        """From a request to the best context that fits. `calls` reaches the event loop for what must be awaited."""
        check_limits(request, self.policy.limits)
        run = RequestRun(self.resources, self.policy, request, calls)
        plan = run.decide()
        if plan.skip:
            return run.context(Composed("", 0, Sifted()), Verdict(reason=plan.reasoning))
        run.open_indexes()  # may wait until an index is built, so it takes no place among those that compute
        with self.resources.computing.held(request.tenant):
            asked = run.ask_providers()
            found = run.retrieve()
            starts, edges = run.load_edges(found)
            ranked = run.propagate(found, starts, edges)
            facts, paths = run.recall_facts(), run.find_paths()
            fresh = run.penalize((*ranked, *facts, *run.collect_recalled(asked), *paths))
            if run.wants_more(fresh):
                fresh = run.expand(fresh, edges)
            gated = run.gate(fresh, edges)
            if request.best_effort and not gated.kept:
                gated = run.gate(run.show_again())
            # grade; then, if that does not suffice, search outside and ask a person
            verdict = run.judge(gated)
            return run.context(run.compose(verdict), verdict)


class RequestRun:
    """The stages of one request.

    `plan` is set by `decide`, `views` (the collections' indexes) by `open_indexes`, `terms` (the query in the terms of
    each collection) and `embedded` (whether an embedder had a part in the ranking) by `retrieve`. `chances` are how
    likely candidates are evidence, and `strips` what is shown of those that fit only in part, both by their ids.
    """

    plan: Plan

    def __init__(
        self, resources: Resources, policy: Policies, request: Request, calls: LoopCalls
    ) -> None:
        self.resources = resources
        self.policy = policy
        self.request = request
        self.recorder = TraceRecorder(resources.tick, before_step=calls.check)
        self.views: dict[str, Snapshot] = {}
        self.terms: dict[str, Sequence[tuple[int, ...]]] = {}
        self.embedded = False
        self.model = read_model(policy.grade.weights)
        self.chances: dict[str, Chance] = {}
        self.strips: dict[str, str] = {}
        self.stuffs = False  # whether the collections are loaded whole
        self._calls = calls

    @lazy_property
    def project(self) -> str:
        """What the caller works on."""
        return project_of(self.request.cwd)

    @lazy_property
    def _has_edges(self) -> bool:
        """Whether the tenant has given any knowledge, asked once a request."""
        return self.resources.store.has_edges(self.request.tenant)

    @lazy_property
    def questions(self) -> dict[str, Question]:
        """The query in the light of each collection; a collection in which retrieval failed is read here."""
        query = self.request.query
        return {name: ask(query, view, self.terms.get(name)) for name, view in self.views.items()}

    def decide(self) -> Plan:
        """Whether to retrieve, and how much. What the collections hold matters if the window is known."""
        request, resources = self.request, self.resources
        tokens: int | None = None
        chunks: int | None = None
        if request.context_budget is not None and resources.measures:
            with self.recorder.attempt(Stage.DECIDE):
                sizes = {c: resources.store.size(request.tenant, c) for c in request.collections}
                counted = [
                    resources.sizes.tokens(request.tenant, name, size, most=request.budget)
                    for name, size in sizes.items()
                ]
                tokens, chunks = sum(counted), sum(size.chunks for size in sizes.values())
        self.plan = decide(
            request, self.policy.decide, content_tokens=tokens, content_chunks=chunks
        )
        self.stuffs = self.plan.strategy is Strategy.STUFF
        return self.plan

    def open_indexes(self) -> None:
        """Open the collections' indexes; a wrong setting is the caller's to mend, any other failure leaves one out."""
        request = self.request
        for name in request.collections:
            with self.recorder.attempt(Stage.INDEX, fatal=(ConfigError, NotReady)):
                view = self.resources.views(request.tenant, name, request.query)
                self.views[name] = view
                if view.degraded:
                    self.recorder.degrade(Stage.INDEX, view.degraded)

    def retrieve(self) -> Mapping[str, Sifted]:
        """What each collection holds for the query, best first; all of it in reading order when stuffing."""
        if not self.views and not self.stuffs:
            return {}
        vector = self._embed(self.request.query)
        self.embedded = vector is not None
        found: dict[str, Sifted] = {}
        for name in self.request.collections if self.stuffs else self.views:
            found[name] = Sifted()
            # a store that cannot be reached is not one that knows nothing
            with self.recorder.step(Stage.RETRIEVE, fatal=(NotReady,)) as step:
                if self.stuffs:
                    found[name] = step.sift(self._load_whole(name, vector))
                else:
                    query, view = self.request.query, self.views[name]
                    terms = self.terms[name] = read_query(query, view)
                    policy = self.policy.retrieve
                    ranked = retrieve(query, view, policy, vector=vector, terms=terms)
                    found[name] = step.sift(ranked)
        return found

    def _embed(self, query: str) -> "npt.ArrayLike | None":
        """The vector of a query; None without an embedder, or if it fails: words go on alone."""
        with self.recorder.attempt(Stage.EMBED):
            return self.resources.vectors(query)
        return None

    def _load_whole(self, name: str, vector: "npt.ArrayLike | None") -> Sifted:
        """Every chunk in reading order, with the score that retrieval gives it; without an index all score the same."""
        chunks = tuple(self.resources.store.scan(self.request.tenant, name))
        scores = dict.fromkeys((chunk.id for chunk in chunks), 1.0)
        view = self.views.get(name)
        if view is not None and chunks:
            wide = self.policy.retrieve.model_copy(update={"keep": len(chunks)})
            ranked = retrieve(self.request.query, view, wide, vector=vector)
            scores = {c.chunk.id: c.score for c in ranked.kept}
        measured = measure_all([chunk.text for chunk in chunks])
        loaded = tuple(
            Candidate(chunk, scores.get(chunk.id, 0.0)).with_note(
                Stage.RETRIEVE, Fate.ADD, NoteCode.LOADED_WHOLE, entropy=entropy
            )
            for chunk, (entropy, _) in zip(chunks, measured, strict=True)
        )
        return Sifted(kept=loaded, added=loaded)

    def load_edges(
        self, found: Mapping[str, Sifted]
    ) -> tuple[Mapping[str, PropagationSeeds], Sequence[Sequence[Edge]]]:
        """Where signals start in each collection, and the given edges around it, hop by hop.

        With given edges, signals also start at the names of the graph that the texts of the seeds write.
        """
        request, policy, store = self.request, self.policy.propagate, self.resources.store
        starts: dict[str, PropagationSeeds] = {}
        edges: Sequence[Sequence[Edge]] = ()
        if self.stuffs or not self.views or not request.graph:
            return starts, edges
        with self.recorder.step(Stage.EDGES):
            for name, view in self.views.items():
                if start := find_seeds(found[name], request.query, view, policy.seeds):
                    starts[name] = start
            if not self._has_edges or not starts:
                return starts, edges
            words = {name: seed_words(start) for name, start in starts.items()}
            every = dict.fromkeys(chain.from_iterable(chain.from_iterable(words.values())))
            nodes = list(find_nodes(store, list(every), tenant=request.tenant))
            named: dict[str, PropagationSeeds] = {}
            charges: dict[str, float] = {}
            for name, start in starts.items():
                view = self.views[name]
                limit = name_limit(view, policy)
                named[name] = with_written_names(start, words[name], nodes, view, limit=limit)
                for node, charge in edge_charges(named[name], view, policy.edge).items():
                    charges[node.text] = max(charge, charges.get(node.text, 0.0))
            edges = neighborhood(
                store, charges, tenant=request.tenant, hops=policy.hops, leak=policy.leak, floor=policy.floor,
            )  # fmt: skip
            starts = named
        return starts, edges

    def propagate(
        self,
        found: Mapping[str, Sifted],
        starts: Mapping[str, PropagationSeeds],
        edges: Sequence[Sequence[Edge]],
    ) -> Candidates:
        """What was found, and what it is connected to."""
        ranked = {name: sifted.kept for name, sifted in found.items()}
        if self.stuffs:
            # in reading order, one collection after the other
            return tuple(join_by_id(list(ranked.values())))
        for name, view in self.views.items():
            with self.recorder.step(Stage.PROPAGATE, ranked[name]) as step:
                spread = propagate(
                    found[name],
                    self.request.query,
                    view,
                    self.policy.propagate,
                    seeds=starts.get(name),
                    edges=tuple(chain(*edges)),
                )
                ranked[name] = step.sift(spread).kept
        return merge(list(ranked.values()))

    def recall_facts(self) -> Candidates:
        """What was remembered about the query."""
        if (memory := self.resources.memory) is not None:
            with self.recorder.step(Stage.MEMORY) as step:
                return step.sift(memory.recall_facts(self.request, self.plan)).kept
        return ()

    def ask_providers(self) -> "Future[Recollection] | None":
        """Ask the memory providers, if there are any; they answer while stages run."""
        memory = self.resources.memory
        if memory is None or not memory.providers.names:
            return None
        return self._calls.start(memory.ask_providers(self.request, self.plan))

    def collect_recalled(self, asked: "Future[Recollection] | None") -> Candidates:
        """What the memory providers answered."""
        if asked is None or self.resources.memory is None:
            return ()
        recollection = Recollection()
        with self.recorder.step(Stage.MEMORY) as step:
            deadline = self.resources.memory.providers.longest_deadline_s
            recollection = step.sift(self._wait(asked, "memory providers", deadline))
        for reason in recollection.degraded:
            self.recorder.degrade(Stage.MEMORY, reason)
        return recollection.sifted.kept

    def find_paths(self) -> Candidates:
        """The paths of what the query names, through given knowledge."""
        request, store, policy = self.request, self.resources.store, self.policy.graph
        if not request.graph:
            return ()
        if self.plan.strategy is Strategy.RAG_GRAPH:
            # lean on the graph: a hop farther, twice as much
            wider = {"max_hops": policy.max_hops + 1, "keep": 2 * policy.keep}
            policy = policy.model_copy(update=wider)
        named: Sequence[str] = ()
        with self.recorder.attempt(Stage.GRAPH):
            if self._has_edges:
                named = anchors(
                    request.query, store, policy, tenant=request.tenant, project=self.project
                )
        if named:
            with self.recorder.step(Stage.GRAPH) as step:
                return step.sift(paths(named, store, policy, tenant=request.tenant)).kept
        return ()

    def penalize(self, candidates: Candidates) -> Sifted:
        """What is new to the window; in reading order when stuffing."""
        fresh = Sifted(kept=tuple(candidates))
        if not self.request.penalize:
            return fresh
        with self.recorder.step(Stage.PENALIZE, candidates) as step:
            fresh = step.sift(penalize(candidates, self.request.window, self.policy.penalize))
        if not self.stuffs:
            return fresh
        place = {c.chunk.id: at for at, c in enumerate(candidates)}
        in_order = sorted(fresh.kept, key=lambda c: place[c.chunk.id])
        return Sifted(tuple(in_order), fresh.dropped)

    def wants_more(self, fresh: Sifted) -> bool:
        """Whether too little is new, so that it is worth asking once more."""
        if self.stuffs or not self.views or not self.request.penalize:
            return False
        with self.recorder.attempt(Stage.EXPAND):
            return wants_more(fresh, self.request.window, self.policy.expand, k=self.request.k)
        return False

    def expand(self, fresh: Sifted, edges: Sequence[Sequence[Edge]]) -> Sifted:
        """What was new, fused with what other queries bring that is new too; adjacent is what one edge leads to.

        A score is a share of the best for its own query, so a chunk that only matches a word added to the question
        would stand beside the best one. So scores count as far as a chunk holds words of the question itself.
        """
        request, policy, names = self.request, self.policy, tuple(self.views)
        with self.recorder.step(Stage.EXPAND, fresh.kept) as step:
            known = {c.chunk.id for c in (*fresh.kept, *fresh.dropped)}
            most = expansion_depth(policy.expand.k if request.k is None else request.k)
            wider = policy.retrieve.model_copy(update={"keep": most + len(known)})
            queries = variants(
                request.query,
                policy.expand,
                edges=edges[0] if edges else (),
                project=self.project,
                window=request.window,
            )
            best: dict[str, Candidate] = {}
            for query, vector in [(query, self._embed(query)) for query in queries]:
                for view in self.views.values():
                    for one in retrieve(query, view, wider, vector=vector).kept:
                        id = one.chunk.id
                        if id not in known and (id not in best or one.score > best[id].score):
                            best[id] = one
            brought = sorted(best.values(), key=lambda c: -c.score)[:most]
            scaled = list[Candidate]()
            for name, members in by_collection(brought, names).items():
                question = self.questions[name]
                matches = match_known(question, [c.chunk for c in members], self.views[name])
                for one, match in zip(members, matches, strict=True):
                    score = one.score * match.term_weight / question.total
                    note = replace(one.notes[-1], score=score)
                    scaled.append(replace(one, score=score, notes=(note,)))
            scaled.sort(key=lambda c: -c.score)
            more = penalize(scaled, request.window, policy.penalize)
            return step.sift(fuse(fresh.kept, more, policy.expand))
        return Sifted(kept=fresh.kept)

    def weigh(self, candidates: Candidates) -> list[Chance]:
        """How likely each candidate is evidence, in the words of the collection that it is from."""
        names = tuple(self.views)
        unread = [c for c in candidates if c.chunk.id not in self.chances]
        seen = by_collection(self._candidates_in_window(), names)
        for name, own in by_collection(unread, names).items():
            made = chances(
                self.questions[name],
                own,
                self.views[name],
                seen=seen[name],
                embedded=self.embedded,
                model=self.model,
            )
            self.chances |= {c.chunk.id: one for c, one in zip(own, made, strict=True)}
        return [self.chances[c.chunk.id] for c in candidates]

    def gate(
        self, fresh: Sifted, edges: Sequence[Sequence[Edge]] = (), *, from_outside: bool = False
    ) -> Gated:
        """What is worth its tokens and fits the budget, in part if need be; a stuffed collection is known to fit."""
        request, policy = self.request, self.policy
        if self.stuffs:
            return Gated(fresh.kept)
        gated = Gated()
        with self.recorder.step(Stage.GATE, fresh.kept) as step:
            weighed = self.weigh(fresh.kept) if self.views else []
            beside = self._find_adjacent(fresh.kept, edges)
            window_share = self._window_share(fresh.kept, beside)
            # if nothing fits beside the note of doubt, the answer goes without it
            for notice in (policy.compose.longest_notice, policy.compose.notice):
                gated = gate(
                    fresh.kept,
                    self.plan.budget,
                    self.resources.count,
                    policy.gate,
                    evidence_shares=evidence_shares(fresh.kept, weighed) if weighed else None,
                    floor=0.0 if from_outside else self._floor(weighed),
                    shown=Shown(window_share, beside),
                    k=request.k,
                    questions=self.questions,
                    preview_chars=policy.compose.preview_chars
                    if request.detail == "preview"
                    else None,
                    notice=notice,
                )
                if gated.kept:
                    break
            self.strips |= gated.strips
            return step.sift(gated)
        return Gated(fresh.kept)

    def _find_adjacent(self, fresh: Candidates, edges: Sequence[Sequence[Edge]]) -> Sequence[str]:
        """What given edges lead to from the question and from what the window shows."""
        if not self.request.window or not self.request.penalize or not edges:
            return ()
        limits = (name_limit(view, self.policy.propagate) for view in self.views.values())
        shown = [c for c in self.recorder.candidates if is_shown(c)]
        return find_adjacent(
            fresh, shown, self.request.query, self.policy.expand,
            edges=chain(*edges), limit=max(limits),
        )  # fmt: skip

    def _candidates_in_window(self) -> Candidates:
        """The candidates that were left out because the window holds them already."""
        return (
            [c for c in self.recorder.candidates if is_in_window(c)] if self.request.window else ()
        )

    def _window_share(self, fresh: Candidates, beside: Container[str]) -> float:
        """The share of the expected evidence that the window shows: the smallest of the collections that were asked.

        What is `beside` the subject, where given edges lead, is no evidence that the window lacks. The window does not
        show all while a new chunk has every word of the question, or one that no chunk in the window has.
        """
        if not self.request.window:
            return 0.0
        names = tuple(self.views)
        seen = by_collection(self._candidates_in_window(), names)
        fresh_of = by_collection([c for c in fresh if c.chunk.source not in SIDE_SOURCES], names)
        shares: list[float] = []
        for name, view in self.views.items():
            shown, missing = 0.0, 0.0
            held = {c.chunk.id: self.chances[c.chunk.id].evidence_share for c in fresh_of[name]}
            if seen[name]:
                shown, question = 1 - sum(held.values()), self.questions[name]
                wanted = question.asked - question.unseen
                known, new = (
                    [match.held for match in match_known(question, [c.chunk for c in some], view)]
                    for some in (seen[name], fresh_of[name])
                )
                said = frozenset[int]().union(*known)
                if any(has - said or (len(wanted) > 1 and wanted <= has) for has in new):
                    shown = 0.0
            if seen[name] or held:
                missing = sum(share for id, share in held.items() if id not in beside)
                shares.append(shown / ((shown + missing) or 1.0))
        return min(shares, default=0.0)

    def _floor(self, found: Sequence[Chance]) -> float:
        """The share of the evidence that 1,000 tokens of a chunk must hold: the request's, else the setting.

        Where the model is unsure that anything found is evidence, it cannot tell where to stop, and the budget is
        filled. It was fitted without an embedder, and words cannot tell against what a vector found.
        """
        policy = self.policy.grade
        if self.request.floor is not None:
            return self.request.floor
        sure = policy.bands(bands_of(None, self.model)).upper
        is_sure = bool(self.request.window) or chance_of_any(found) >= sure
        return policy.floor if policy.enabled and is_sure and not self.embedded else 0.0

    def show_again(self) -> Sifted:
        """What the window shows already, best first: the caller would rather have that than nothing."""
        seen = sorted(self._candidates_in_window(), key=ranking_score, reverse=True)
        with self.recorder.step(Stage.PENALIZE) as step:
            again = tuple(c.with_note(Stage.PENALIZE, Fate.ADD, NoteCode.BEST_EFFORT) for c in seen)
            return step.sift(Sifted(kept=again, added=again))
        return Sifted()

    def judge(self, gated: Gated) -> Verdict:
        """What may be shown of what fits, after grading, a search and a person."""
        nothing = "" if gated.kept or not self.views else self._explain_nothing()
        graded = self.grade(gated.kept) if self.views and not nothing else None
        outside: Graded | None = None
        if graded and graded.action is not Action.CORRECT and (found := self.search()) is not None:
            more = self.gate(self.penalize(found), from_outside=True)
            outside = self.grade(more.kept) or Graded(Sifted(tuple(more.kept)), graded.action)
        verdict = decide_shown(
            gated.kept,
            graded,
            outside,
            nothing=nothing,
            in_danger=self.plan.in_danger,
            empty=self._describe_empty() if graded else "",
        )
        if verdict.asks_person:
            review = self.review(graded.confidences if graded else {}, verdict.reason)
            if review is not None:
                verdict = replace(verdict, fallback="review", review=review)
        return verdict

    def _explain_nothing(self) -> str:
        """Why nothing of what was found fits: the window holds it, or it is too large; "" if nothing was found."""
        candidates = self.recorder.candidates
        if any(map(is_in_window, candidates)):
            return "everything relevant is in the window already"
        last = [candidate.notes[-1] for candidate in candidates if candidate.dropped]
        sizes = [note.numbers["tokens"] for note in last if note.code is NoteCode.NO_ROOM]
        if not any(sizes):
            return ""
        frame = fence_cost(self.resources.count, self.policy.compose.notice)
        return (
            f"nothing of what was found fits the budget of {self.plan.budget:,} tokens: "
            f"the smallest chunk takes {min(sizes):,.0f}, and the fence around it up to {frame:,}"
        )

    def grade(self, fitting: Candidates) -> Graded | None:
        """How relevant candidates are; None if grading failed, and all of them pass."""
        policy, grader = self.policy.grade, self.resources.grader
        with self.recorder.step(Stage.GRADE, fitting) as step:
            bands = policy.bands(bands_of(grader, self.model), self.plan)
            if fitting and not policy.enabled:
                graded = pass_ungraded(fitting)
            elif grader is None:
                found = self.weigh(fitting)
                graded = grade(fitting, [one.confidence for one in found], bands, chances=found)
            else:
                query, timeout_s = self.request.query, self.resources.grader_s
                work = partial(ask_grader, grader, query, fitting, timeout_s=timeout_s)
                marks = (
                    self._ask(work, "grader", timeout_s, self.resources.grader_rest)
                    if fitting
                    else []
                )
                graded = grade(fitting, marks, bands)
            step.facts["action"] = graded.action.value
            return step.sift(graded)
        return None

    def search(self) -> Candidates | None:
        """What a search outside brings; None if there is none or it failed."""
        if (search := self.resources.search) is None:
            return None
        taken = {candidate.chunk.id for candidate in self.recorder.candidates}
        with self.recorder.step(Stage.SEARCH) as step:
            limit = self.policy.grade.search_limit
            timeout_s = self.resources.search_s
            work = partial(
                await_part, "search", timeout_s, search.search, self.request.query, limit=limit
            )
            found = self._ask(work, "search", timeout_s, self.resources.search_rest)
            return step.sift(outside_candidates(found, taken=taken)).kept
        return None

    def review(self, grades: Mapping[str, float], reason: str) -> str | None:
        """The review that now waits, "" if the queue could not take it, None if it is off or not asked for."""
        policy, request, resources = self.policy.review, self.request, self.resources
        if not policy.enabled or not (policy.on_refusal or self.plan.in_danger):
            return None
        with self.recorder.step(Stage.REVIEW) as step:
            step.facts["review"] = ""
            queue = ReviewQueue(
                resources.store,
                request.tenant,
                policy,
                clock=resources.clock,
                defer=resources.defer,
                rate=resources.ask_rate,
            )
            waiting = queue.ask(
                request.query,
                collection=", ".join(request.collections),
                grades=dict(grades),
                reason=reason,
                asker=request.asker,
            )
            if waiting:
                step.facts["review"] = waiting.id
                return waiting.id
        return ""

    def compose(self, verdict: Verdict) -> Composed:
        """One block of what may be shown."""
        request, resources, policy = self.request, self.resources, self.policy.compose
        composed = Composed("", 0, Sifted())
        doubts = (policy.longest_notice,) if verdict.action is Action.AMBIGUOUS else ()
        with self.recorder.step(Stage.COMPOSE, verdict.kept, fatal=(NotReady,)) as step:
            step.sift(composed)  # unless the stage comes to its end
            for notice in (*doubts, policy.notice):  # as in `gate`
                composed = compose(
                    verdict.kept,
                    self.plan.budget,
                    resources.count,
                    policy,
                    secret=fence_secret(resources.store.secret(request.tenant)),
                    notice=notice,
                    detail=request.detail,
                    order=request.order,
                    strips=self.strips,
                    side_share=self.policy.gate.graph_share,
                )
                if composed.text:
                    break
            return step.sift(composed)
        return Composed("", 0, Sifted())

    def context(self, composed: Composed, verdict: Verdict) -> Context:
        """The context with its trace; its reason names which of several collections hold nothing, if others do."""
        empty, reason = self._empty_collections(), verdict.reason
        if 0 < len(empty) < len(self.views):
            nothing = f"nothing is in collection {', '.join(empty)}"
            reason = f"{reason}; {nothing}" if reason else nothing
        shown, marks, candidates = composed.shown, verdict.confidences, self.recorder.candidates
        trace = Trace(
            id=self.resources.name(),
            request=self.request,
            plan=self.plan,
            steps=tuple(self.recorder.steps),
            candidates=candidates,
            created=self.resources.clock(),
        )
        # A vector finds the answer to a question in other words. Something like an order is in every collection.
        by_vector = self.embedded and read_wanted(self.request.query) == "question"
        weights = [self.chances[one.id].held_weight for one in shown if one.id in self.chances]
        by_words = not by_vector and len(weights) == len(shown)
        return Context(
            text=composed.text,
            chunks=shown,
            texts=composed.texts,
            token_estimate=composed.tokens,
            trace=trace,
            report=report(composed.sifted.kept, [c for c in candidates if c.dropped]),
            sources=composed.sources,
            graph_context=composed.graph_context,
            admissibility_token=composed.token,
            verdict=verdict.action.value if verdict.action else "",
            confidences={one.id: marks[one.id] for one in shown if one.id in marks},
            held_weight=max(weights, default=None) if by_words else None,
            fallback=verdict.fallback,
            fallback_reason=reason,
            review=verdict.review,
            latency_ms=1000 * self.recorder.seconds,
        )

    def _describe_empty(self) -> str:
        """What to know if none of the collections that were asked holds anything; empty if one does."""
        empty = self._empty_collections()
        if len(empty) < len(self.request.collections):
            return ""
        known: Sequence[str] = ()
        with self.recorder.attempt(Stage.INDEX):
            known = list(self.resources.store.collections(self.request.tenant))
        if not known:
            return "nothing is stored yet"
        for at, name in enumerate(
            empty[:5]
        ):  # a like name takes milliseconds to find beside thousands
            if meant := did_you_mean(name, known):
                empty[at] = f"{name} ({meant})"
        return f"nothing is in collection {', '.join(empty)}"

    def _empty_collections(self) -> list[str]:
        return [name for name, view in self.views.items() if not view.count]

    def _ask(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        part: str,
        timeout_s: float | None,
        rest: Rest,
    ) -> T:
        """What a grader or search answers; UpstreamError at once while it rests, since a late one costs every request
        its whole time.
        """
        if rest.reason:
            raise UpstreamError(f"the {part} is {rest.reason}")
        future = self._calls.start(work())
        try:
            answer = self._wait(future, part, timeout_s)
        except UpstreamError as error:
            # a request that was cancelled says nothing of the part
            if isinstance(error, UpstreamTimeout) or not future.cancelled():
                rest.note(error.message)
            raise
        rest.note("")
        return answer

    def _wait(self, future: "Future[T]", part: str, timeout_s: float | None) -> T:
        """Wait for work on the event loop; another request computes the while."""
        self.resources.computing.give_back()
        try:
            return self._calls.wait(future, part, timeout_s)
        finally:
            self.resources.computing.take(self.request.tenant)


def by_collection(
    candidates: Sequence[Candidate], names: Sequence[str]
) -> dict[str, list[Candidate]]:
    """The candidates of each collection that was asked; those of others go with the first."""
    parted: dict[str, list[Candidate]] = {name: [] for name in names}
    for candidate in candidates:
        own = candidate.chunk.collection
        parted[own if own in parted else names[0]].append(candidate)
    return parted


def report(kept: Sequence[Candidate], dropped: Sequence[Candidate]) -> Report:
    """What was kept and evicted on the whole way, with the last reason for each evicted id.

    The averages are over those whose entropy the gate measured: what earlier stages left out has none.
    """

    def mean_entropy(some: Sequence[Candidate]) -> float:
        noted = (candidate.number(Stage.GATE, "entropy") for candidate in some)
        found = [bits for bits in noted if bits is not None]
        return sum(found) / len(found) if found else 0.0

    return Report(
        total_candidates=len(kept) + len(dropped),
        kept=len(kept),
        evicted=len(dropped),
        avg_entropy_kept=mean_entropy(kept),
        avg_entropy_evicted=mean_entropy(dropped),
        evicted_ids=tuple(c.chunk.id for c in dropped),
        reasons={c.chunk.id: f"{c.notes[-1].stage}: {c.notes[-1].reason}" for c in dropped},
    )

"""What the picker shows and does, without widgets: pairs, filters, downloads, removal, the choice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.language import tr
from app.pairs.cards import Card, Filter, Step, rank
from app.pairs.custom_row import CustomPair, custom_row, inspect_custom
from app.pairs.downloads import Downloads, PairProgress
from app.pairs.hub_search import HubSearch
from app.pairs.leftovers import Leftovers
from app.pairs.sources import Listing, PairSources, read_listing
from app.tasks import Tasks
from core.errors import BadRequest, InternalError, MirrorError
from core.hub.leftovers import find_removal, remove_model
from core.hub.plan import DownloadPlan, DownloadRequest, plan_download, request_of
from core.hub.progress import ENDED
from core.pairs import Pair
from core.pairs.found import FoundModel
from core.pairs.listing import PairRow


class PickerModel(QObject):
    """Reads the sources off the event loop and keeps a card for each pair."""

    listed = Signal()
    """Other pairs are shown, or in another order."""
    card_changed = Signal(str)
    """The pair's id."""
    problem_met = Signal(object)
    """`Problem` that belongs to no card."""
    pair_chosen = Signal(object, bool)
    """`Pair` to load, and whether to check it then."""
    downloads_changed = Signal()
    inspected = Signal(object)
    """`CustomPair` or `Problem`."""

    def __init__(self, read_sources: Callable[[], PairSources], parent: QObject | None = None) -> None:
        """`read_sources` is asked at each reading, so that changed settings hold from then on."""
        super().__init__(parent)
        self._read_sources = read_sources
        sources = self._sources = read_sources()
        self._tasks = Tasks()
        self.hub_search = HubSearch(lambda: self._sources.hub, self)
        self.leftovers = Leftovers(lambda: self._sources.hub.cache_dir, self)
        self.leftovers.problem_met.connect(self.problem_met)
        self._downloads = Downloads(sources.hub, sources.patience, self)
        self._downloads.changed.connect(self._on_download)
        self._listing: Listing | None = None
        self._cards: dict[str, Card] = {}
        self._custom: dict[str, CustomPair] = {}
        self._loaded: Pair | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self.held_bytes = 0
        """What the pair that is loaded now would give back."""
        self._filter = Filter()

    # ------------------------------------------------------------ what is shown

    @property
    def reading(self) -> bool:
        """Whether the sources have not been read yet."""
        return self._listing is None

    def card(self, pair: str) -> Card:
        """The card of a pair."""
        return self._cards[pair]

    def shown(self) -> tuple[Card, ...]:
        """What search and filters let through: the recommended one, then the user's, ready ones, those that fit."""
        cards = [card for card in self._cards.values() if self._filter.passes(card)]
        return tuple(sorted(cards, key=rank))

    def other_models(self) -> tuple[FoundModel, ...]:
        """Models on disk that no pair names and the search lets through."""
        if self._listing is None:
            return ()
        named = self.named_repos()
        others = (model for model in self._listing.found if model.name not in named)
        return tuple(model for model in others if self._filter.has_words(model.name))

    def named_repos(self) -> set[str | None]:
        """The hub ids that cards stand for, and the names of single files."""
        rows = [card.row for card in self._cards.values()]
        files = {f"{row.target_repo}/{row.target_file}" for row in rows if row.target_file}
        return files | {name for row in rows for name in (row.target_repo, row.draft_repo)}

    def recommended(self) -> Card | None:
        """The pair for this machine."""
        return next((card for card in self._cards.values() if card.row.recommended), None)

    def first_try(self) -> Card | None:
        """The pair whose draft ships with Mirror SD and whose target the hub has: the smallest download."""
        rows = (card.row for card in self._cards.values())
        shipped = (row for row in rows if row.target_repo and row.with_draft and not row.draft_repo)
        return next((self._cards[row.id] for row in shipped), None)

    def under_way(self) -> tuple[PairProgress, ...]:
        """Downloads that have not ended."""
        return self._downloads.under_way()

    def set_filter(self, chosen: Filter) -> None:
        """Show only what passes, and look at the hub for the search."""
        self._filter = chosen
        if self._listing is not None:
            self.hub_search.search(chosen.search, self._listing.catalog)
        self.listed.emit()

    def set_loaded(self, pair: Pair | None) -> None:
        """The pair that the engine holds now."""
        self._loaded = pair
        for card in list(self._cards.values()):
            self._put(replace(card, loaded=self._is_loaded(card.row)))

    # -------------------------------------------------------------- what is read

    def reload(self) -> None:
        """Read the sources and the settings; again once more where that is under way."""
        if self._reading is not None:
            self._read_again = True
            return
        self._reading = self._tasks.start(self._reload())

    async def _reload(self) -> None:
        try:
            sources = await asyncio.to_thread(self._read_sources)
            listing = await asyncio.to_thread(read_listing, sources, self.held_bytes)
        except MirrorError as error:
            self.problem_met.emit(error.problem)
            return
        except OSError as error:
            sentence = tr("The models on this machine could not be listed.")
            self.problem_met.emit(InternalError(sentence, tr("Try again."), repr(error)).problem)
            return
        finally:
            self._reading = None
        self._use(sources)
        self._take(listing)
        self.leftovers.look()
        if self._read_again:
            self._read_again = False
            self.reload()

    def _use(self, sources: PairSources) -> None:
        """From now on. Downloads that are under way go on as they began."""
        if sources != self._sources:
            self._sources = sources
            self._downloads.use(sources.hub, sources.patience)
            self.hub_search.forget()

    def _take(self, listing: Listing) -> None:
        first, self._listing = self._listing is None, listing
        rows = [*(custom_row(pair, listing.found) for pair in self._custom.values()), *listing.rows]
        old, self._cards = self._cards, {}
        for row in rows:
            before = old.get(row.id) or Card(row)
            self._cards[row.id] = replace(before, row=row, loaded=self._is_loaded(row))
        for card in list(self._cards.values()):
            self._put(replace(card, removable=bool(self._own_repos(card.row))))
            if card.row.state == "ready" and card.progress is not None and card.progress.state == "done":
                self._downloads.forget(card.row.id)
        if first and listing.problem is not None:
            self.problem_met.emit(listing.problem)
        self.listed.emit()

    # ---------------------------------------------------------------- a download

    def plan(self, pair: str) -> None:
        """Ask the hub what a download would fetch, for the user to agree to."""
        self._begin(pair, "planning", self._plan)

    async def _plan(self, card: Card) -> Card:
        row = card.row
        requests = []
        if row.target_path is None:
            target = _on_hub(row.target_repo, row.name)
            requests.append(request_of(target, row.target_revision, row.target_file, row.target_sha256))
        if row.draft_path is None and row.with_draft:
            requests.append(DownloadRequest(_on_hub(row.draft_repo, row.name), row.draft_revision))
        plans = await asyncio.gather(*(self._ask(request) for request in requests))
        return replace(card, step="consent", plans=tuple(plans))

    async def _ask(self, request: DownloadRequest) -> DownloadPlan:
        try:
            return await plan_download(self._sources.hub, request)
        except MirrorError as error:  # which of the two models it is about
            problem = error.problem
            raise type(error)(f"{request.repo}: {problem.sentence}", problem.hint, problem.detail) from error

    def agree(self, pair: str) -> None:
        """Begin the download that was planned."""
        card = self._cards[pair]
        if card.step == "consent":
            self._put(replace(card, step="", plans=(), problem=None))
            self._downloads.start(pair, card.plans)

    def dismiss(self, pair: str) -> None:
        """Leave what was to be agreed to, or the problem that was told."""
        card = self._cards[pair]
        self._put(replace(card, step="", plans=(), removals=(), problem=None))
        if card.progress is not None and card.progress.state in ENDED:
            self._downloads.forget(pair)

    def pause(self, pair: str) -> None:
        """Stop the pair's download at once and keep what has arrived."""
        self._downloads.pause(pair)

    def resume(self, pair: str) -> None:
        """Go on with the pair's download after a pause, a failure or a cancel."""
        self._downloads.resume(pair)

    def cancel(self, pair: str, *, keep: bool) -> None:
        """Stop the pair's download at once; keep or delete what has arrived."""
        self._downloads.cancel(pair, keep=keep)

    def _on_download(self, pair: str) -> None:
        card = self._cards.get(pair)
        progress = self._downloads.progress(pair)
        if card is not None:
            was = card.progress.state if card.progress else None
            self._put(replace(card, progress=progress))
            if progress is not None and progress.state == "done" != was:
                self.reload()
        self.downloads_changed.emit()

    # ------------------------------------------------------------------- removal

    def measure_removal(self, pair: str) -> None:
        """Find out what deleting the pair would free, for the user to agree to."""
        self._begin(pair, "measuring", self._measure)

    async def _measure(self, card: Card) -> Card:
        if card.loaded:
            sentence = tr("{pair} is loaded.").format(pair=card.row.name)
            raise BadRequest(sentence, tr("Free its memory or choose another pair first."))
        repos = self._own_repos(card.row)
        if not repos:
            raise BadRequest(
                tr("{pair} was not downloaded here: another program or folder keeps it.").format(pair=card.row.name),
                tr("Remove it there."),
                f"{card.row.target_path} {card.row.draft_path}",
            )
        cache = self._sources.hub.cache_dir
        removals = [await asyncio.to_thread(find_removal, cache, repo) for repo in repos]
        return replace(card, step="removal", removals=tuple(removals))

    def remove(self, pair: str) -> None:
        """Delete what was measured."""
        if self._cards[pair].step == "removal":
            self._begin(pair, "removing", self._remove)

    async def _remove(self, card: Card) -> Card:
        try:
            for removal in card.removals:
                await asyncio.to_thread(remove_model, self._sources.hub.cache_dir, removal)
        finally:
            self.reload()
        return replace(card, step="", removals=())

    def _own_repos(self, row: PairRow) -> list[str]:
        """The pair's models in our cache that no other pair on the disk needs."""
        needed = {
            path
            for card in self._cards.values()
            if card.row.id != row.id and card.row.state == "ready"
            for path in (card.row.target_path, card.row.draft_path)
        }
        cache = self._sources.hub.cache_dir.resolve()
        places = ((row.target_repo, row.target_path), (row.draft_repo, row.draft_path))
        return [
            repo
            for repo, path in places
            if repo and path and path not in needed and path.startswith(f"{cache}/models--")
        ]

    # ---------------------------------------------------------- choice and custom

    def choose(self, pair: str) -> None:
        """Have the engine load a pair that is ready; where that costs something, after the user has agreed to it."""
        card = self._cards[pair]
        if card.row.pair is None or not card.row.compatibility.runs:
            return
        if card.fits and (card.row.preparation is None or card.row.preparation.kept):
            self.pair_chosen.emit(card.row.pair, False)
        else:
            self._put(replace(card, step="load", problem=None))

    def load(self, pair: str, *, check: bool) -> None:
        """Load the pair after all, and `check` it then."""
        card = self._cards[pair]
        if card.step == "load" and card.row.pair is not None:
            self._put(replace(card, step=""))
            self.pair_chosen.emit(card.row.pair, check)

    def inspect(self, target: str, draft: str) -> None:
        """Judge a pair by paths or hub ids, a target alone where no draft is named; `inspected` tells the outcome."""
        self._tasks.start(self._inspect(target.strip(), draft.strip()))

    async def _inspect(self, target: str, draft: str) -> None:
        listing = self._listing
        try:
            if listing is None or not target:
                raise BadRequest(tr("Name a target."), tr("It is a folder, a GGUF file, or a hub id: owner/name."))
            hub, limits = self._sources.hub, self._sources.limits
            custom = await asyncio.to_thread(inspect_custom, target, draft, listing.catalog, listing.found, hub, limits)
        except MirrorError as error:
            self.inspected.emit(error.problem)
            return
        self.inspected.emit(custom)

    def add_custom(self, pair: CustomPair) -> None:
        """Show a pair of the user's own as a card, for this session."""
        self._custom[pair.id] = pair
        if self._listing is not None:
            self._take(self._listing)

    # -------------------------------------------------------------------- inside

    async def close(self) -> None:
        """Pause all downloads; what has arrived is kept."""
        await self._downloads.close()
        for each in (self.hub_search, self.leftovers):
            await each.close()
        await self._tasks.cancel_all()

    def _begin(self, pair: str, step: Step, work: Callable[[Card], Awaitable[Card]]) -> None:
        card = replace(self._cards[pair], step=step, problem=None)
        self._put(card)
        self._tasks.start(self._carry_out(card, work))

    async def _carry_out(self, card: Card, work: Callable[[Card], Awaitable[Card]]) -> None:
        pair = card.row.id
        try:
            done = await work(card)
        except MirrorError as error:
            self._settle(pair, card.step, Card(card.row, problem=error.problem))
        except Exception as error:
            sentence = tr("Something went wrong in the window.")
            problem = InternalError(sentence, tr("Try again."), repr(error)).problem
            self._settle(pair, card.step, Card(card.row, problem=problem))
            raise
        else:
            self._settle(pair, card.step, done)

    def _settle(self, pair: str, begun: Step, outcome: Card) -> None:
        """Show the outcome, unless the user has left the step meanwhile."""
        now = self._cards.get(pair)
        if now is not None and now.step == begun:
            self._put(
                replace(now, step=outcome.step, plans=outcome.plans, removals=outcome.removals, problem=outcome.problem)
            )

    def _put(self, card: Card) -> None:
        if card != self._cards.get(card.row.id):
            self._cards[card.row.id] = card
            self.card_changed.emit(card.row.id)

    def _is_loaded(self, row: PairRow) -> bool:
        loaded = self._loaded
        return loaded is not None and (loaded.target, loaded.draft) == (row.target_path, row.draft_path)


def _on_hub(repo: str | None, name: str) -> str:
    if repo is None:
        sentence = tr("{pair} cannot be downloaded from the hub.").format(pair=name)
        raise BadRequest(sentence, tr("It was in a folder that is not there any more."))
    return repo

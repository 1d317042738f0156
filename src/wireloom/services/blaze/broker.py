"""The Blaze broker: sessions of clients around one store.

    async with Broker(BrokerSettings(Path("fleet.blz"), "sqlite:///fleet.db")) as broker:
        print(broker.address)

As a program it is ``wireloom serve blaze``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Self

from prometheus_client import CollectorRegistry
from starlette.routing import BaseRoute

from wireloom.errors import OptionError, SourceError
from wireloom.formats.blaze.blz import load_blz
from wireloom.formats.blaze.codes import BlazeCode, RefusalCode
from wireloom.formats.blaze.dialects import get_dialect
from wireloom.formats.blaze.model import Model
from wireloom.services._shell.connections import Hub
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tap import Tap
from wireloom.services._shell.tasks import Tasks
from wireloom.services.blaze.fanout import Fanout
from wireloom.services.blaze.hooks import Filter, Handler, Hooks, HookThreads, load_hooks
from wireloom.services.blaze.metrics import BrokerMetrics
from wireloom.services.blaze.peer import BlazePeer
from wireloom.services.blaze.settings import BrokerSettings
from wireloom.services.blaze.store.api import STORED_FIRST_INDEX, Store, StoreStatus

__all__ = ["Broker"]

log = get_log("blaze")

_SPARE_CONNECTIONS = 256
"""Beyond the limit: so many at a time are told that there are too many, instead of nothing."""

_TAP_FLUSH_S = 0.5
_STATUS_S = 1.0
"""How old the store's figures in the metrics, and what ``/readyz`` says, may be."""

_DRAIN_SHARE = 0.7
"""Part of the time for draining in which transactions may end; the rest is for the last words."""


class Broker:
    """Serves clients until it is closed.

    Args:
        settings: all that it can be told.
        hooks: what the application does and allows, instead of a module in the settings.
        model: instead of the file in the settings.
        store: instead of the one in the settings; it is closed with the broker.

    Raises:
        OptionError: the hooks cannot be had, or do not fit the model.
        SourceError: the model is wrong, or a file for TLS.
        OSError: the tap's folder cannot be written to.
    """

    routes: Sequence[BaseRoute] = ()

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        hooks: Hooks | None = None,
        model: Model | None = None,
        store: Store | None = None,
    ) -> None:
        self.settings = settings
        self.model = model or load_blz(settings.model)
        if hooks is None:
            hooks = Hooks() if settings.handlers is None else load_hooks(settings.handlers)
        first_index = get_dialect(settings.dialect).first_index_of(self.model)
        self.has_stored_index = first_index == STORED_FIRST_INDEX
        """Whether bodies of clients could be stored as they are."""
        self.hooks = hooks
        self.handlers: dict[int, Handler]
        self.filters: dict[int, Filter]
        self.handlers, self.filters = hooks.by_id(self.model)
        self.threads = HookThreads(max(1, settings.transactions.handler_threads))
        self._tls = settings.tls.context()
        tap = Tap(settings.tap, "blaze") if settings.tap.folder is not None else None
        limits = settings.limits
        spare = replace(
            limits,
            max_connections=limits.max_connections + _SPARE_CONNECTIONS,
            max_connections_per_address=limits.max_connections_per_address + _SPARE_CONNECTIONS,
        )
        self.hub = Hub("blaze", spare, tap)
        self.metrics = BrokerMetrics(self, self.hub.registry)
        self.fanout = Fanout(self.metrics)
        self.sessions: dict[BlazePeer, None] = {}
        """All connections."""
        self.members: set[BlazePeer] = set()
        """Those that were let in, or are being decided on."""
        self._by_host: Counter[str] = Counter()
        self.address = settings.listen
        """Where clients connect; the real one when it serves."""
        self.is_draining = False
        self.store_status: StoreStatus | None = None
        self._given_store = store
        self._is_closed = False
        self._waking: list[BlazePeer] = []
        self._held: dict[BlazePeer, None] = {}
        self._tasks: Tasks | None = None
        self._own: Tasks | None = None

    # -- a service of the shell

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics."""
        return self.hub.registry

    @property
    def is_ready(self) -> bool:
        """Whether transactions could be carried out, as far as is known."""
        return self.store_status is None or self.store_status.is_up

    async def start(self, tasks: Tasks) -> dict[str, Any]:
        """Open the store and serve; give what the ready line says.

        Raises:
            StoreError: the store cannot be opened.
            OSError: the address cannot be listened on.
        """
        settings = self.settings
        self.loop = asyncio.get_running_loop()
        self._tasks = tasks
        self.store = self._given_store or await self._open_store()
        self.fanout.event_ids = await self.store.event_ids()
        await self.store.start(self.fanout.publish, self.fanout.gap)
        made = settings.server(self.model, time.time() - self.loop.time())
        self.session_settings = replace(
            made,
            drain_timeout=made.drain_timeout * _DRAIN_SHARE,
            high_water=min(made.high_water, settings.limits.max_queue_bytes),
        )
        self.address = await self.hub.listen(lambda: BlazePeer(self), settings.listen, self._tls)
        tasks.start(self._keep_house(), "housekeeping")
        return {"listen": str(self.address), "dialect": settings.dialect}

    async def _open_store(self) -> Store:
        from wireloom.services.blaze.store import open_store

        settings = self.settings
        try:
            return await open_store(
                settings.store,
                self.model,
                first_index=get_dialect(settings.dialect).first_index_of(self.model),
                settings=settings.storage.settings(),
                policy=settings.policy.policy(),
            )
        except SourceError as error:  # of a model, whose file the store does not know
            raise SourceError(error.reason, file=str(settings.model)) from error

    async def drain(self) -> None:
        """Refuse who comes, let transactions end, say DSCOND 4 to all."""
        self.is_draining = True
        for peer in list(self.sessions):
            peer.drain()
        while self.sessions:
            await asyncio.wait([peer.gone for peer in self.sessions])

    async def close(self) -> None:
        """End everything; what was submitted to the store is finished."""
        if self._is_closed:
            return
        self._is_closed = self.is_draining = True
        self.hub.stop_listening()
        for peer in list(self.sessions):
            peer.end()
        with contextlib.suppress(AttributeError):  # it was never opened
            await self.store.close()
        await self.hub.close(within_s=1.0)
        self.threads.shutdown(wait=False, cancel_futures=True)

    async def status(self) -> dict[str, Any]:
        """What it does right now."""
        store = self.store_status = await self.store.status()
        metrics = self.metrics
        states: dict[str, int] = {}
        for peer in self.sessions:
            state = peer.session.state.value
            states[state] = states.get(state, 0) + 1
        transactions: dict[str, dict[str, int]] = {}
        for (action, outcome), count in metrics.transactions.items():
            transactions.setdefault(action, {})[outcome] = count
        return {
            "listen": str(self.address),
            "dialect": self.settings.dialect,
            "draining": self.is_draining,
            "connections": len(self.sessions),
            "sessions": states,
            "subscriptions": {
                self.class_name(nclsid): count for nclsid, count in self.fanout.counts().items()
            },
            "flying": sum(peer.session.flying for peer in self.sessions),
            "transactions": transactions,
            "events": metrics.all_events(),
            "slow_consumers": dict(metrics.slow_consumers),
            "handler_failures": dict(metrics.handler_failures),
            "oddities": dict(metrics.all_oddities()),
            "store": {
                "up": store.is_up,
                "error": store.error,
                "rows": dict(store.rows),
                "deleted": dict(store.deleted),
                "pending": store.pending,
                "writes": store.writes,
                "commits": store.commits,
                "failures": store.failures,
                "last_commit": store.last_commit,
                "last_group": store.last_group,
                "latency": store.latency,
                "max_latency": store.max_latency,
                "foreign_changes": store.foreign_changes,
                "gaps": store.gaps,
            },
        }

    # -- in a program of one's own

    def stop_subscriptions(
        self,
        nclass: str | int,
        code: BlazeCode = BlazeCode.NO_ERROR,
        *,
        connid: int | None = None,
    ) -> int:
        """End subscriptions to a class, each with a STOP event; gives how many.

        Args:
            nclass: name or id of the class.
            code: why: UNAUTHORIZED for who may see it no longer, for instance.
            connid: of the connection whose subscription is meant; None: all.

        Raises:
            OptionError: the model has no such class.
        """
        found = self.model.nclass(nclass)
        if found is None:
            raise OptionError(f"the model has no class {nclass!r}")
        peers = [
            peer
            for peer in self.fanout.subscribers(found.id)
            if connid is None or peer.session.connid == connid
        ]
        for peer in peers:
            peer.stop_subscription(found.id, code)
        return len(peers)

    async def __aenter__(self) -> Self:
        self._own = Tasks()
        try:
            await self.start(self._own)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._own is not None
        if not self._is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.program.drain_s):
                    await self.drain()
        await self.close()
        await self._own.cancel()

    # -- for connections

    def refusal(self, peer: BlazePeer) -> RefusalCode | None:
        """Why a client is not let in; None: it is, and counted from now on."""
        if self.is_draining:
            return RefusalCode.SERVER_IS_GOING_DOWN
        limits, host = self.settings.limits, peer.remote.host
        full = ""
        if len(self.members) >= limits.max_connections:
            full = "max_connections"
        elif self._by_host[host] >= limits.max_connections_per_address:
            full = "max_connections_per_address"
        if full:
            self.hub.metrics.refused.labels(full).inc()
            return RefusalCode.TOO_MANY_CONNECTIONS
        self.members.add(peer)
        self._by_host[host] += 1
        return None

    def leave(self, peer: BlazePeer) -> None:
        """A client is not counted any more; its connection may have last words."""
        if peer in self.members:
            self.members.remove(peer)
            self._by_host[peer.remote.host] -= 1
            if not self._by_host[peer.remote.host]:
                del self._by_host[peer.remote.host]

    def forget(self, peer: BlazePeer) -> None:
        """A connection has ended."""
        self.sessions.pop(peer, None)
        self.leave(peer)
        self.metrics.oddities.update(peer.session.counts)
        self.metrics.events += peer.session.events_sent

    def run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run something that must not fail in the background."""
        assert self._tasks is not None
        return self._tasks.start(work, name)

    def wake(self, peer: BlazePeer) -> None:
        """Have a connection flushed at the end of this turn, together with others."""
        if not self._waking:
            self.loop.call_soon(self._flush)
        self._waking.append(peer)

    def _flush(self) -> None:
        waking, self._waking = self._waking, []
        for peer in waking:
            try:
                peer.flush()
            except Exception as error:
                peer.fail(error)

    def hold(self, peer: BlazePeer) -> None:
        """Do not read from a connection until the store has room."""
        if peer in self._held:
            return
        if not self._held:
            self.run(self._wait_for_room(), "room")
        self._held[peer] = None
        self.metrics.held_reads["store"] += 1
        peer.hold_reading()

    async def _wait_for_room(self) -> None:
        await self.store.room()
        held, self._held = self._held, {}
        for peer in held:
            peer.resume_reading()

    def failed_hook(self, hook: str, error: BaseException) -> None:
        """The application has raised."""
        self.metrics.handler_failures[hook] += 1
        log.error("hook_failed", hook=hook, error=repr(error), exc_info=error)

    def class_name(self, nclsid: int) -> str:
        """A class's name, or its number."""
        found = self.model.nclass(nclsid)
        return str(nclsid) if found is None else found.name

    async def _keep_house(self) -> None:
        looked = self.loop.time()
        while True:
            await asyncio.sleep(_TAP_FLUSH_S)
            if self.hub.tap is not None:
                self.hub.tap.flush()
            if self.loop.time() - looked >= _STATUS_S:
                self.store_status = await self.store.status()
                looked = self.loop.time()

"""What an application does and allows: handlers for transactions, who may do what, who sees what.

A module for ``--handlers`` has one `Hooks` called ``hooks``::

    from wireloom.services.blaze import Hooks, Refused

    hooks = Hooks()

    @hooks.transaction("TRUCK")
    async def check(tx):
        if tx.object.read("load") > 40_000:
            raise Refused                       # TXKO 4

    @hooks.authorise
    def may(caller, intent):
        return intent.verb != "RST"             # TXKO 10

    @hooks.events("TRUCK")
    def sees(caller, action, truck):
        return truck.read("fleet") == 7

Functions that are no coroutines run in threads, but for filters of events, which run for each event
and must be quick.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from wireloom.errors import OptionError
from wireloom.formats.blaze.codes import Action, BlazeCode
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.session.events import TxId
from wireloom.services._shell.addresses import Address

__all__ = [
    "Caller",
    "Done",
    "HookThreads",
    "Hooks",
    "Intent",
    "Refused",
    "Transaction",
    "load_hooks",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    connid: int
    """0 while the connection is being decided on."""
    remote: Address
    certificate: Mapping[str, Any] | None = None
    """Of the client, as `ssl.SSLSocket.getpeercert` gives it; None without one."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody wants to do."""

    verb: str
    """SUBSCRIBE, or the action of a transaction: INS, UPD, DLT, DEL, RST, REMOVE, RESET."""
    nclass: str
    """Name of the class."""
    object: NClassValue | None = None
    """Of a transaction."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that its handler decides on."""

    caller: Caller
    txid: TxId
    action: IntEnum
    object: NClassValue
    wants_result: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A handler's answer: it is done, and the store has nothing to do."""

    result: NClassValue | None = None
    """For a client that wants one."""


class Refused(Exception):  # a word of the protocol, not a fault
    """A handler's answer: no.

    Args:
        code: 4 when it is left out, 7 when there is a result.
        result: an object that explains it.
    """

    def __init__(
        self, code: BlazeCode | int | None = None, result: NClassValue | None = None
    ) -> None:
        if code is None:
            no_result = BlazeCode.APPLICATION_ERROR
            code = no_result if result is None else BlazeCode.REASON_IN_RESULT_NCLASS
        self.code = BlazeCode(code)
        self.result = result
        super().__init__(f"refused with {self.code}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.result)


Answer = NClassValue | Done | None
"""Of a handler. None: the store does it; an object: the store does it with that one instead."""
Handler = Callable[[Transaction], Answer | Awaitable[Answer]]
Filter = Callable[[Caller, Action, NClassValue], bool]
Verdict = bool | BlazeCode | None


class Hooks:
    """What an application does and allows; nothing and everything, when nothing is declared."""

    def __init__(self) -> None:
        self.connect: Callable[[Caller], bool | Awaitable[bool | None] | None] | None = None
        self.may: Callable[[Caller, Intent], Verdict | Awaitable[Verdict]] | None = None
        self.handlers: dict[str | int, Handler] = {}
        self.filters: dict[str | int, Filter] = {}

    def connection(self, function: _F) -> _F:
        """Decides who is let in: False refuses with CONRES 3/1 (2017: 3/10)."""
        self.connect = function
        return function

    def authorise(self, function: _F) -> _F:
        """Decides who may do what: False refuses with 10, a code (8, 9, 10) with that."""
        self.may = function
        return function

    def transaction(self, *classes: str | int) -> Callable[[_F], _F]:
        """Decides on transactions with objects of these classes, by name or id."""

        def decorate(function: _F) -> _F:
            self.handlers.update(dict.fromkeys(classes, function))
            return function

        return decorate

    def events(self, *classes: str | int) -> Callable[[_F], _F]:
        """Decides who is told of which changes to objects of these classes."""

        def decorate(function: _F) -> _F:
            self.filters.update(dict.fromkeys(classes, function))
            return function

        return decorate

    def check(self, model: Model) -> None:
        """See that the classes are in a model.

        Raises:
            OptionError: one is not.
        """
        for name in [*self.handlers, *self.filters]:
            if model.nclass(name) is None:
                raise OptionError(f"hooks: the model has no class {name!r}")

    def by_id(self, model: Model) -> tuple[dict[int, Handler], dict[int, Filter]]:
        """Handlers and filters by the id of their class.

        Raises:
            OptionError: the model does not have one of them.
        """
        self.check(model)

        def numbered(given: Mapping[str | int, Any]) -> dict[int, Any]:
            return {
                found.id: function
                for name, function in given.items()
                if (found := model.nclass(name)) is not None
            }

        return numbered(self.handlers), numbered(self.filters)


class HookThreads(Executor):
    """Threads for hooks that are no coroutines.

    A `ThreadPoolExecutor` would keep the process alive for as long as a hook does not return.

    Args:
        count: the most that run at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0
        self._is_shut = False
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Have a function called in a thread.

        Raises:
            RuntimeError: after `shutdown`.
        """
        if self._is_shut:
            raise RuntimeError("no hooks are called any more")
        future: Future[_T] = Future()
        self._work.put((future, partial(fn, *args, **kwargs)))
        if self._started < self._count:
            self._started += 1
            Thread(target=self._run, name=f"wireloom-hooks-{self._started}", daemon=True).start()
        return future

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except StopIteration as error:  # which no future of the event loop can hold
                future.set_exception(_Ended(error))
            except BaseException as error:
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Call nothing new; what runs is not waited for."""
        self._is_shut = True
        with suppress(Empty):
            while cancel_futures:
                item = self._work.get_nowait()
                if item is not None:
                    item[0].cancel()
        for _ in range(self._started):
            self._work.put(None)


class _Ended(Exception):
    """A hook has raised what ends a program or a task; it ends the hook and nothing else."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"it raised {error!r}")


async def call(executor: Executor, function: Callable[..., Any], *given: Any) -> Any:
    """What a function gives: a coroutine here, anything else in a thread.

    Raises:
        Exception: whatever it raises; in place of what would end the program, an exception.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*given)
        found = await asyncio.get_running_loop().run_in_executor(executor, function, *given)
        return await found if inspect.isawaitable(found) else found
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Ended(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _Ended(error) from error


def load_hooks(name: str) -> Hooks:
    """The ``hooks`` of a module, given by its name or as a ``.py`` file.

    Raises:
        OptionError: it cannot be imported, or has none.
    """
    try:
        if name.endswith(".py"):
            path = Path(name)
            spec = importlib.util.spec_from_file_location(f"wireloom_hooks_{path.stem}", path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{name} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a user's module may do anything
        raise OptionError(f"handlers {name}: {type(error).__name__}: {error}") from error
    hooks = getattr(module, "hooks", None)
    if not isinstance(hooks, Hooks):
        raise OptionError(f"handlers {name}: it has no Hooks called 'hooks'")
    return hooks

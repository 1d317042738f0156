"""What an application does and allows: handlers, authorisation, filters; and how they may fail."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from oracles.blaze_peers import MODEL, Raw, live, ping, serving, settings, truck, until
from oracles.blaze_program import Program

from wireloom.errors import OptionError
from wireloom.formats.blaze import (
    Action,
    BlazeCode,
    ConnectionRequest,
    ConnectionResponse,
    EventType,
    TransactionResponse,
    decode_nclass,
)
from wireloom.services.blaze import Caller, Done, Hooks, Intent, Refused, Transaction
from wireloom.services.blaze.hooks import HookThreads, load_hooks


@live
async def test_a_handler_decides_changes_and_answers() -> None:
    hooks = Hooks()
    seen: list[Transaction] = []

    @hooks.transaction("TRUCK")
    async def handle(tx: Transaction) -> Any:
        seen.append(tx)
        match tx.object.read("x"):
            case 1:
                return None
            case 2:
                return truck(2, x=20)
            case 3:
                return Done(truck(3, x=30))
            case 4:
                raise Refused
            case 5:
                raise Refused(result=truck(5, name="why"))
            case 6:
                raise Refused(BlazeCode.SERVER_ERROR)
            case 7:
                raise ZeroDivisionError
            case _:
                return "nonsense"

    outcomes = [(1, 0), (2, 0), (3, 0), (4, 4), (5, 7), (6, 3), (7, 4), (8, 4)]
    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as raw:
        for x, code in outcomes:
            answer = await raw.ask(value=truck(x, x=x), rsclrq=1)
            assert (answer.txresl, answer.blzcod) == (2 if code else 1, code)
            if x in (2, 3, 5):
                result = decode_nclass(MODEL, "TRUCK", answer.body or b"", first_index=1)
                assert result.read("x") == {2: 20, 3: 30, 5: 0}[x]
        assert [tx.object["x"] for tx in seen] == [x for x, _ in outcomes]
        assert seen[0].caller.connid == raw.connid
        assert seen[0].action is Action.INS
        assert broker.metrics.handler_failures["transaction"] == 2
        assert len(await broker.store.rows(302, (0, 0), 10)) == 2


@live
async def test_a_handler_that_blocks_holds_up_nobody_else_and_fails_in_time() -> None:
    hooks, ended = Hooks(), threading.Event()
    returned: list[bool] = []

    @hooks.transaction("TRUCK")
    def handle(tx: Transaction) -> None:
        assert threading.current_thread() is not threading.main_thread()
        returned.append(ended.wait(20))

    given = settings(transactions={"timeout_s": 0.2})
    async with serving(given, hooks=hooks) as broker, await Raw.connect(broker) as raw:
        async with await Raw.connect(broker) as other:
            raw.send(raw.request())
            assert (await other.subscribe(303)).sbresl == 2
        await raw.expect(TransactionResponse, blzcod=203)
        assert not returned, "it still blocks"
        ended.set()
        assert not await broker.store.rows(302, (0, 0), 10)


ENDS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration()]


@pytest.mark.parametrize("error", ENDS, ids=repr)
@live
async def test_a_hook_that_ends_programs_or_tasks_ends_only_itself(error: BaseException) -> None:
    hooks, welcome = Hooks(), [True]

    def fail() -> None:
        raise error

    @hooks.transaction("TRUCK")
    async def soon(tx: Transaction) -> None:
        fail()

    @hooks.transaction("PING")
    def handle(tx: Transaction) -> None:
        if tx.object.read("n") == 1:
            fail()

    @hooks.authorise
    async def may(caller: Caller, intent: Intent) -> None:
        if intent.verb == "SUBSCRIBE" and intent.nclass == "TRUCK":
            fail()

    @hooks.connection
    def let_in(caller: Caller) -> None:
        if not welcome[0]:
            fail()

    @hooks.events("PING")
    def sees(caller: Caller, action: Action, value: Any) -> None:
        fail()

    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as raw:
        for value in (truck(1), ping(1)):
            assert (await raw.ask(value=value)).blzcod == 4
        assert (await raw.subscribe(302)).blzcod == 4
        assert (await raw.subscribe(303, sbsmod=3)).sbresl == 1
        assert (await raw.ask(value=ping(2))).txresl == 1
        welcome[0] = False
        async with await Raw.open(broker) as other:
            other.send(ConnectionRequest())
            await other.expect(ConnectionResponse, conres=3, errcod=2)
        assert broker.metrics.handler_failures == {
            "transaction": 2,
            "authorise": 1,
            "events": 1,
            "connection": 1,
        }


def test_a_handler_that_never_returns_does_not_keep_the_broker_running(tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text(
        "import time\nfrom wireloom.services.blaze import Hooks\nhooks = Hooks()\n"
        "@hooks.transaction('PING')\ndef handle(tx):\n    time.sleep(60)\n"
    )
    options = ("--handlers", str(tmp_path / "hooks.py"), "--tx-s", "0.2", "--drain-s", "1")
    with Program.start(tmp_path, "sqlite://", *options) as program:

        @live
        async def ask() -> None:
            async with await Raw.connect(program.address) as raw:
                assert (await raw.ask(value=ping(1))).blzcod == 203

        ask()
        assert program.terminate() == 0


@live
async def test_transactions_reach_the_store_in_their_order_whatever_handlers_do() -> None:
    hooks = Hooks()

    @hooks.transaction("TRUCK")
    async def handle(tx: Transaction) -> None:
        await asyncio.sleep(0.05 if tx.action is Action.INS else 0)

    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as raw:
        raw.send(
            raw.request(prid=1), raw.request(Action.UPD, prid=2), raw.request(Action.DEL, prid=3)
        )
        for prid in (1, 2, 3):
            await raw.expect(TransactionResponse, txprid=prid, txresl=1)


@live
async def test_who_leaves_takes_its_handlers_along() -> None:
    hooks, states = Hooks(), []

    @hooks.transaction("TRUCK")
    async def handle(tx: Transaction) -> None:
        states.append("begun")
        try:
            await asyncio.sleep(30)
        finally:
            states.append("ended")

    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as raw:
        raw.send(raw.request())
        await until(lambda: states)
        raw.close()
        await until(lambda: states[-1] == "ended")


@live
async def test_a_veto_refuses_the_connection() -> None:
    for function, code in ((lambda caller: False, 1), (lambda caller: 1 / 0, 2)):
        hooks = Hooks()
        hooks.connection(function)
        async with serving(hooks=hooks) as broker, await Raw.open(broker) as raw:
            raw.send(ConnectionRequest())
            await raw.expect(ConnectionResponse, conres=3, errcod=code)
            await raw.ended()
    hooks = Hooks()
    hooks.connection(lambda caller: False)
    async with (
        serving(settings(dialect="2017"), hooks=hooks) as broker,
        await Raw.open(broker) as raw,
    ):
        raw.send(ConnectionRequest())
        await raw.expect(ConnectionResponse, conres=3, errcod=10)


@live
async def test_what_is_not_allowed_is_refused_with_the_code_that_says_why() -> None:
    hooks = Hooks()
    verdicts: dict[str, Any] = {
        "INS": None,
        "UPD": False,
        "DEL": BlazeCode.UNAUTHENTICATED,
        "RST": BlazeCode.SECURITY_ERROR,
        "SUBSCRIBE": True,
    }

    @hooks.authorise
    async def may(caller: Caller, intent: Intent) -> Any:
        if intent.nclass == "PING":
            raise ZeroDivisionError
        return verdicts[intent.verb]

    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as raw:
        for action, code in ((Action.INS, 0), (Action.UPD, 10), (Action.DEL, 9), (Action.RST, 8)):
            assert (await raw.ask(action)).blzcod == code
        assert (await raw.subscribe(sbsmod=3)).sbresl == 1
        verdicts["SUBSCRIBE"] = False
        async with await Raw.connect(broker) as other:
            assert (await other.subscribe()).blzcod == 10
            assert (await other.subscribe(303)).blzcod == 4


@live
async def test_a_filter_decides_event_by_event_who_sees_what() -> None:
    hooks = Hooks()

    @hooks.events("TRUCK")
    def sees(caller: Caller, action: Action, value: Any) -> bool:
        if value.read("x") == 13:
            raise ZeroDivisionError
        return bool(value.read("x") % 2 == caller.connid % 2)

    async with serving(hooks=hooks) as broker, await Raw.connect(broker) as writer:
        for x in (1, 2, 3):
            await writer.ask(value=truck(x, x=x))
        readers = [await Raw.connect(broker) for _ in range(2)]
        for reader in readers:
            await reader.subscribe()
        for x in (4, 5, 13, 6, 7):
            await writer.ask(value=truck(x, x=x))
        for reader in readers:
            seen: list[int] = []
            while len(seen) < (4 if reader.connid % 2 else 3):
                event = await reader.event()
                if event.sevttp != EventType.DWNLEND:
                    value = decode_nclass(MODEL, "TRUCK", event.body or b"", first_index=1)
                    seen.append(value.read("x"))  # type: ignore[arg-type]
            assert seen == ([1, 3, 5, 7] if reader.connid % 2 else [2, 4, 6])
            reader.close()
        assert broker.metrics.handler_failures["events"] == 2


def test_hooks_come_from_a_module_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from wireloom.services.blaze import Hooks\nhooks = Hooks()\n")
    assert isinstance(load_hooks(str(path)), Hooks)
    path.write_text("hooks = 5\n")
    with pytest.raises(OptionError, match="no Hooks called"):
        load_hooks(str(path))
    path.write_text("raise SystemExit(3)\n")
    with pytest.raises(OptionError, match="SystemExit: 3"):
        load_hooks(str(path))
    with pytest.raises(OptionError, match="No module named"):
        load_hooks("no_such_module_at_all")
    hooks = Hooks()
    hooks.transaction("LORRY")(print)
    with pytest.raises(OptionError, match="no class 'LORRY'"):
        hooks.by_id(MODEL)


def test_threads_of_hooks_call_with_what_they_are_given_and_nothing_after_shutdown() -> None:
    threads = HookThreads(1)
    assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
    assert threads.submit(int, "11", base=2).result(10) == 3
    threads.shutdown()
    with pytest.raises(RuntimeError, match="no hooks"):
        threads.submit(int)

"""``wireloom serve blaze`` as a program: ready line, side port, signals, config, TLS, kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import ssl
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from oracles.blaze_crash import Trial, kill_under_load, settle
from oracles.blaze_peers import FLEET, MODEL, Raw, live, truck
from oracles.blaze_program import Program
from oracles.blaze_words import Words

from wireloom.cli import main as wireloom
from wireloom.formats.blaze import Action, Disconnected, TransactionResponse, decode_nclass

pytestmark = pytest.mark.slow  # each starts brokers as programs


@live
async def test_the_ready_line_names_real_ports_and_the_side_port_answers(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'fleet.db'}"
    with Program.start(tmp_path, store, "--metrics", "127.0.0.1:0") as program:
        assert program.ready["event"] == "ready"
        async with (
            await Raw.connect(program.address) as raw,
            httpx.AsyncClient(base_url=f"http://{program.ready['metrics']}") as http,
        ):
            await raw.subscribe(sbsmod=3)
            assert (await raw.ask()).txresl == 1
            status = (await http.get("/status")).json()
            assert status["sessions"] == {"connected": 1}
            assert status["subscriptions"] == {"TRUCK": 1}
            assert status["transactions"] == {"INS": {"ok": 1}}
            assert status["store"]["rows"] == {"TRUCK": 1}
            metrics = (await http.get("/metrics")).text
            assert 'wireloom_blaze_transactions_total{action="INS",outcome="ok"} 1.0' in metrics
            assert (await http.get("/readyz")).status_code == 200
            program.process.terminate()
            await raw.event()
            await raw.expect(Disconnected, disres=4)
            await raw.ended()
        assert await asyncio.to_thread(program.wait) == 0
        # One line on stdout, and no payload in what it says elsewhere.
        events = [json.loads(line)["event"] for line in program.log.read_text().splitlines()]
        assert events[-1] == "stopped"


@live
async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'fleet.db'}"
    with Program.start(tmp_path, store) as program:
        async with await Raw.connect(program.address) as raw:
            first = raw.connid
            for number in range(1, 6):
                await raw.ask(value=truck(number))
        program.kill()
    with Program.start(tmp_path, store) as program:
        async with await Raw.connect(program.address) as raw:
            assert raw.connid > first
            assert (await raw.ask(value=truck(3))).blzcod == 4
            await raw.subscribe(sbsmod=2)
            events = [await raw.event() for _ in range(6)]
            keys = [
                decode_nclass(MODEL, "TRUCK", e.body, first_index=1)["truck_id"]
                for e in events
                if e.body
            ]
            assert keys == [1, 2, 3, 4, 5]
        assert program.terminate() == 0


def test_killed_at_any_moment_nothing_acknowledged_is_lost_and_nothing_doubled(
    tmp_path: Path, store_url: str
) -> None:
    rng, trial = Random(13), Trial()
    for _ in range(2):
        with Program.start(tmp_path, store_url) as program:
            asyncio.run(kill_under_load(trial, program, rng))
    with Program.start(tmp_path, store_url, "--window", "64") as program:
        asyncio.run(settle(trial, program))
        assert program.terminate() == 0
    assert trial.kills == 2


def test_three_brokers_on_one_database_serve_as_one(tmp_path: Path, postgres_url: str) -> None:
    async def main(programs: list[Program]) -> None:
        raws = [await Raw.connect(program.address) for program in programs]
        assert len({raw.connid for raw in raws}) == 3
        readers = [await Raw.connect(program.address) for program in programs]
        for reader in readers:
            await reader.subscribe(sbsmod=3)
        wanted = []
        for number in range(1, 61):
            assert (await raws[number % 3].ask(value=truck(number))).txresl == 1
            wanted.append(number)
        assert (await raws[0].ask(Action.UPD, truck(1, x=5))).txresl == 1
        seen: list[list[Any]] = []
        for reader in readers:
            events = [await reader.event(20) for _ in range(61)]
            stamps = [(event.tmstmp0, event.tmstmp1) for event in events]
            assert stamps == sorted(set(stamps))
            seen.append([(event.body, event.sbeact) for event in events])
        assert seen[0] == seen[1] == seen[2]
        keys = [
            decode_nclass(MODEL, "TRUCK", b or b"", first_index=1)["truck_id"] for b, _ in seen[0]
        ]
        assert keys == [*wanted, 1]
        # The one whose broker is killed goes on at another.
        position = events[-1]
        await asyncio.to_thread(programs[2].kill)
        await readers[2].ended()
        for number in range(61, 71):
            assert (await raws[0].ask(value=truck(number))).txresl == 1
        async with await Raw.connect(programs[1].address) as reader:
            await reader.subscribe(dwltyp=2, tmstmp0=position.tmstmp0, tmstmp1=position.tmstmp1)
            found = [await reader.event() for _ in range(10)]
            keys = [
                decode_nclass(MODEL, "TRUCK", e.body or b"", first_index=1)["truck_id"]
                for e in found
            ]
            assert keys == list(range(61, 71))
        for each in (*raws, *readers):
            each.close()

    programs = [Program(tmp_path, postgres_url) for _ in range(3)]
    try:
        for program in programs:
            program.wait_ready()
        asyncio.run(main(programs))
    finally:
        for program in programs:
            program.__exit__()


def certificates(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return cert, key


def test_there_may_be_more_connections_than_files_that_a_shell_grants(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        program = Program.start(tmp_path, "sqlite://")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with program, contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(Words.connect(program.address))


@live
async def test_clients_come_over_tls_with_a_certificate(tmp_path: Path) -> None:
    cert, key = certificates(tmp_path)
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--client-ca", str(cert))
    with Program.start(tmp_path, "sqlite://", *options) as program:
        context = ssl.create_default_context(cafile=str(cert))
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            # Without a certificate of its own.
            await Raw.connect(program.address, ssl=context)
        context.load_cert_chain(cert, key)
        async with await Raw.connect(program.address, ssl=context) as raw:
            assert (await raw.ask()).txresl == 1
            program.process.terminate()
            await raw.expect(Disconnected, disres=4)
        assert await asyncio.to_thread(program.wait) == 0


def test_a_config_is_checked_with_line_numbers_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "fleet.blz").write_text(FLEET)
    config = tmp_path / "broker.toml"
    model = f'model = "{tmp_path / "fleet.blz"}"'
    config.write_text(
        f'{model}\nstore = "sqlite://"\nlisten = "127.0.0.1:0"\n'
        "[subscriptions]\nwindow = 16\n[limits]\nmax_connections = 0\n"
    )
    check = ["serve", "blaze", "--config", str(config), "--check-config"]
    found = CliRunner().invoke(wireloom, check)
    assert (found.exit_code, found.output) == (0, f"{config}: it is well formed\n")
    config.with_name("old.toml").write_text(
        f'{model}\nstore = "sqlite://"\ndialect = 2017\n[subscriptions]\noverflow = "CONFLATE"\n'
    )
    old = [*check[:3], str(config.with_name("old.toml")), check[-1]]
    assert CliRunner().invoke(wireloom, old).exit_code == 0  # as a number, as help shows it
    for text, message in (
        ("[subscriptions]\nwindow = -1\n", "bad.toml:2: "),
        (
            'model = "m"\nstore = "s"\n[subscriptions]\nwindow = 0\n',
            "window and download_rows must be at least 1",
        ),
        ('dialect = "2018"\n', "is not one of document, 2017, 2019"),
        ("[subscription]\nwindow = 1\n", "did you mean subscriptions?"),
        (f'{model}\nstore = "s"\n\n[subscriptions]\nwindow = 0\n', "bad.toml:4: window and"),
        (f'{model}\nstore = "mysql://x"\n', "bad.toml:2: a store is sqlite:// or"),
        (f'{model}\nstore = "sqlite://"\n[tls]\ncert = "none.pem"\n', "bad.toml:3: none.pem"),
        ('store = "sqlite://"\nmodel = "none.blz"\n', "bad.toml:2: none.blz"),
    ):
        config.with_name("bad.toml").write_text(text)
        bad = ["serve", "blaze", "--config", str(tmp_path / "bad.toml"), "--check-config"]
        found = CliRunner().invoke(wireloom, bad)
        assert found.exit_code == 1
        assert message in found.output
    command = [*check[:-1], "--limits-max-connections", "10"]
    process = subprocess.Popen(
        [sys.executable, "-m", "wireloom.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())

        async def use() -> None:
            async with await Raw.connect(ready["listen"]) as raw:
                raw.send(raw.request())
                await raw.expect(TransactionResponse, txresl=1)

        asyncio.run(use())
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "fleet.blz").write_text(FLEET)
    model = ["--model", str(tmp_path / "fleet.blz")]
    keyless = tmp_path / "keyless.blz"
    keyless.write_text("nclass A\n{\n@id 5\nint_32 x\n@persistent\n}\n")
    for options, message in (
        ([*model, "--store", "mongodb://x"], "mongodb"),
        (
            [*model, "--store", "postgresql://me:secret@127.0.0.1:1/x", "--listen", "127.0.0.1:0"],
            "\nError: postgresql://me:***@127.0.0.1:1/x: connection failed: ",
        ),
        (["--model", str(tmp_path / "none.blz"), "--store", "sqlite://"], "none.blz"),
        ([*model, "--store", "sqlite://", "--handlers", "no_such_module"], "no_such_module"),
        (["--model", str(keyless), "--store", "sqlite://"], "keyless.blz: class A is persistent"),
        ([*model, "--store", "sqlite://", "--log-level", "loud"], "not one of debug, info, "),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "wireloom.cli", "serve", "blaze", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (1, 2), done
        assert message in done.stderr
        assert "Traceback" not in done.stderr

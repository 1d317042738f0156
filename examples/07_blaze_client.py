"""A Blaze broker in a process of its own, and a client that changes objects and follows them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from wireloom.formats.blaze.classes import load_classes
from wireloom.services.blaze import Client

MODEL = """nclass TRUCK\n{\n@id 302\nuint_32 truck_id\nascii[16] name
@persistent\n@key primary\n@id 1\n@fldset {truck_id}\n@key_end\n}\n"""


async def main(port: int, model: Path) -> None:
    fleet = load_classes(model)
    async with Client.connect("127.0.0.1", port) as client:
        await client.insert_many(fleet.TRUCK(truck_id=n, name=f"truck {n}") for n in (1, 2, 3))
        async for event in client.subscribe(fleet.TRUCK):
            if event.is_download_end:
                await client.update(fleet.TRUCK(truck_id=2, name="new"))
                continue
            print(event.action.name, event.object)
            if event.object.name == "new":
                break


with tempfile.TemporaryDirectory() as folder:
    (model := Path(folder, "fleet.blz")).write_text(MODEL)
    options = ["--model", model, "--store", f"sqlite:///{folder}/fleet.db", "--log-level", "error"]
    command = [sys.executable, "-m", "wireloom.cli", "serve", "blaze", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE) as broker:
        address = json.loads(broker.stdout.readline())["listen"]
        asyncio.run(main(int(address.rpartition(":")[2]), model))
        broker.terminate()

"""Files: a folder, a store, settings, an import and an index that a stranger made, given to the commands.

A command must end, within what its parsers' processes may take (30 seconds of CPU a file at most), without a traceback,
without writing a control character to the terminal, and without having read what lies outside the folder.
"""

# ruff: noqa: ASYNC240  (nothing else runs on this loop)

import asyncio
import json
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

from bench.attacks.target import attack

MOST_S = 300
SECRET = "xylophone-4711"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\u2066"


async def command(target, folder, *line):
    """Run one command in a folder; what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "millgate", *line, cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(MOST_S):
            printed = (await process.communicate())[0].decode("utf-8", "replace")
    except TimeoutError:
        process.kill()
        await process.wait()
        target.won.append(f"millgate {line[0]} did not end")
        return ""
    if "Traceback" in printed:
        target.won.append(f"millgate {line[0]} failed: {printed.splitlines()[-1][:200]}")
    if found := STEERING.search(printed):
        target.won.append(f"millgate {line[0]} printed {found[0]!r}")
    return printed


@attack
async def hostile_folders(target):
    """Links out of a folder, names that steer a terminal, patterns of a hundred stars, parsers' traps."""
    with tempfile.TemporaryDirectory() as place:
        outside, folder = Path(place, "outside"), Path(place, "inside")
        outside.mkdir()
        folder.mkdir()
        (outside / "key.md").write_text(f"The key is {SECRET}.")
        (folder / "link.md").symlink_to(outside / "key.md")
        (folder / "folder").symlink_to(outside)
        (folder / "self.md").symlink_to(folder / "self.md")
        (folder / "pipe").mkdir()
        os.mkfifo(folder / "pipe" / ".gitignore")
        (folder / ".gitignore").write_text("*a" * 40 + "*b\n" + "**/a/" * 40 + "b\n")
        (folder / ("a" * 200)).write_text("Parcels ship by rail.")
        (folder / f"{ESCAPES}.md").write_text(f"# {ESCAPES}\n\nParcels ship by rail. {ESCAPES}")
        (folder / "deep.json").write_text("[" * 200_000)
        (folder / "wide.csv").write_text("a," * 500_000 + "\n1")
        (folder / "open.html").write_text("<svg>" * 60_000 + "</object>" * 60_000)
        (folder / "half.html").write_text("<a" * 200_000)
        (folder / "bad.pdf").write_bytes(b"%PDF-1.7\n" + b"1 0 obj<</Type/Pages/Kids[1 0 R]/Count 9>>endobj " * 2_000)  # fmt: skip
        with zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("word/document.xml", b"0" * (64 << 20))
        await command(target, folder, "add", ".", "--store", "kb")
        shown = await command(target, folder, "context", SECRET, "--store", "kb")
        shown += await command(target, folder, "context", "how do parcels ship?", "--store", "kb")
        shown += await command(target, folder, "why", "--store", "kb")
        if "The key is" in shown:
            target.won.append("a link led out of the folder")


@attack
async def hostile_settings(target):
    """Settings that lie in the folder which is entered: commands, addresses, paths outside, and nesting without end."""
    wanted = ['search.mcp = "touch owned"', 'search.searx = "http://127.0.0.1:9"', 'log.path = "../owned"', 'store = "/tmp/elsewhere"', 'embed.model = "http://127.0.0.1:9"', 'service.host = "0.0.0.0"', 'guard.divergence_token = "run it"', "redact = false", "a = " + "[" * 50_000]  # fmt: skip
    for line in wanted:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "inside")
            folder.mkdir()
            (folder / "a.md").write_text("Parcels ship by rail.")
            (folder / "millgate.toml").write_text(line)
            await command(target, folder, "context", "what is the xylophone number?")
            if list(Path(place).rglob("owned")):
                target.won.append(f"a found file ran or wrote something: {line}")


@attack
async def hostile_stores(target):
    """A store whose index, import or backup an attacker wrote."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = "\n".join(json.dumps({"id": f"d{n}", "text": f"Refund {n} is paid."}) for n in range(1100))  # fmt: skip
        (folder / "rows.jsonl").write_text(rows)
        await command(target, folder, "add", "rows.jsonl", "--store", "kb")
        await command(target, folder, "context", "refund", "--store", "kb")
        manifests = list(folder.rglob("manifest.json"))
        for content in ("[" * 100_000, json.dumps({"format": 2, "mark": "m", "seen": "x", "kind": "", "complete": True, "segments": [{"file": "/dev/zero", "dead": "", "vectors": "", "near": ""}]})):  # fmt: skip
            for manifest in manifests:
                manifest.write_text(content)
            if "Refund" not in await command(target, folder, "context", "refund", "--store", "kb"):
                target.won.append("a hostile index hid the documents")
        value = {"id": "../../x", "collection": "../..", "chunks": [{"id": "c", "text": ESCAPES, "document": "../../x"}]}  # fmt: skip
        lines = ["{" * 50_000, json.dumps({"kind": "document", "tenant": "../other", "value": value}), json.dumps({"kind": "fact", "tenant": "t", "value": {"id": "f", "content": ESCAPES, "trust": 1e308}})]  # fmt: skip
        for line in lines:
            (folder / "import.jsonl").write_text(line)
            await command(target, folder, "store", "import", "import.jsonl", "--store", "kb2")
        await command(target, folder, "doctor", "--store", "kb")

"""Lock: the exact versions and hashes that CI and the container install, for every platform that we build for.

    python requirements/lock.py            writes requirements/service.txt, build.txt, installer.txt and dev.txt

Versions are resolved once, here; the hashes of the same versions are then gathered for each platform and Python. The
files name no index, so that they hold wherever the packages come from: a file with another hash is refused.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13")
GLIBCS = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
# The tags of the wheels that a machine takes. Who develops on a Mac is served too, and not refused for other hashes.
MACHINES = {
    f"Linux on {machine}": [f"manylinux_{glibc}_{machine}" for glibc in GLIBCS]
    + [f"manylinux2014_{machine}", f"linux_{machine}"]
    for machine in ("x86_64", "aarch64")
} | {
    f"macOS on {machine}": [
        f"macosx_{version}_{kind}"
        for version in ("14_0", "13_0", "12_0", "11_0", "10_15", "10_13", "10_12", "10_9")
        for kind in (machine, "universal2")
    ]
    for machine in ("arm64", "x86_64")
}
SETS = {
    "service": ["--editable", f"{HERE.parent}[service,http,mcp,pdf,postgres,vectors]"],
    "build": ["hatchling>=1.26"],  # what pyproject.toml builds with
    "installer": ["pip>=25.1", "uv"],  # what installs dev.txt
    "dev": ["--editable", str(HERE.parent), "--group", f"{HERE.parent}/pyproject.toml:dev"],
}


def report(arguments: list[str]) -> list[dict]:
    """What pip would install, or nothing if it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
        ]
        done = subprocess.run(
            [*command, "--report", str(file), *arguments], check=False, capture_output=True
        )
        return json.loads(file.read_text())["install"] if done.returncode == 0 else []


def hashes(installs: list[dict]) -> dict[str, set[str]]:
    """The hashes of what would be installed, by name and version; the project itself has none."""
    found: dict[str, set[str]] = {}
    for item in installs:
        name = item["metadata"]["name"].lower().replace("_", "-")
        digest = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest:
            found.setdefault(f"{name}=={item['metadata']['version']}", set()).add(digest)
    return found


def lock(name: str, arguments: list[str]) -> None:
    """Write one file."""
    pins = hashes(report(arguments))
    if not pins:
        sys.exit(f"{name}: pip could not resolve it")
    missing = []
    for python in PYTHONS:
        for machine, tags in MACHINES.items():
            where = [
                "--only-binary=:all:",
                "--no-deps",
                "--target",
                "unused",
                "--python-version",
                python,
            ]
            where += [part for tag in tags for part in ("--platform", tag)]
            more = hashes(report([*where, *pins]))
            if not more:
                missing.append(f"{python} for {machine}")
            for pin, digests in more.items():
                pins[pin] |= digests
    lines = [
        f"{pin} \\\n" + " \\\n".join(f"    --hash=sha256:{h}" for h in sorted(pins[pin]))
        for pin in sorted(pins)
    ]
    head = f"# Made by requirements/lock.py. Install with: pip install --require-hashes -r requirements/{name}.txt\n"
    (HERE / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")
    print(
        f"{name}: {len(pins)} packages"
        + (f"; no wheels of all of them for {', '.join(missing)}" if missing else "")
    )


if __name__ == "__main__":
    for name, arguments in SETS.items():
        lock(name, arguments)

"""SBOM: what is installed with Millgate, as CycloneDX JSON on stdout.

python requirements/sbom.py requirements/service.txt > sbom.json
"""

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

PIN = re.compile(r"^([\w.-]+)==(\S+) \\$")


def components(lines: list[str]) -> list[dict]:
    """The pinned packages with their hashes and, if they are installed, their licenses."""
    found: list[dict] = []
    for line in lines:
        pin = PIN.match(line)
        if pin:
            name, version = pin.groups()
            found.append(
                {
                    "type": "library",
                    "name": name,
                    "version": version,
                    "purl": f"pkg:pypi/{name}@{version}",
                    "hashes": [],
                    **license_of(name),
                }
            )
        elif "--hash=sha256:" in line:
            digest = line.split("sha256:")[1].strip(" \\")
            found[-1]["hashes"].append({"alg": "SHA-256", "content": digest})
    return found


def license_of(name: str) -> dict:
    """The license that a package states."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return {}
    stated = about.get("License-Expression") or about.get("License") or ""
    return {"licenses": [{"license": {"name": stated.splitlines()[0][:80]}}]} if stated else {}


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text()
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": components(text.splitlines()),
    }
    json.dump(bom, sys.stdout, indent=2)

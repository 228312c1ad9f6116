"""`python -m tests.packaging.sbom FILE`: the bill of materials of a wheel, CycloneDX 1.6 in JSON.

Compiled crates come from Cargo.lock with its checksums; Python packages are the wheel's dependencies, with its extras.
The same tree gives the same document.
"""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

from tests.packaging.licences import ROOT, Part, crates, packages, product_packages

NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""The namespace of URLs (RFC 9562)."""


def bill() -> dict[str, Any]:
    """Return the document."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    product = product_packages()
    parts = [*crates(), *(each for each in packages() if each.name in product and each.name != "pybroker")]
    components = [_component(each, checksums.get((each.name, each.version))) for each in parts]
    own = {"type": "application", "name": "pybroker", "version": version, "bom-ref": f"pkg:pypi/pybroker@{version}"}
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": components,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(part: Part, checksum: str | None) -> dict[str, Any]:
    purl = f"pkg:{'cargo' if part.kind == 'crate' else 'pypi'}/{part.name}@{part.version}"
    hashes = {"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum and part.kind == "crate" else {}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": part.name,
        "version": part.version,
        "purl": purl,
        "licenses": [{"expression": part.licence}],
        **hashes,
    }


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill(), indent=1) + "\n")
    print(f"{file}: {len(bill()['components'])} components")

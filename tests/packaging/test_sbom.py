"""The bill of materials names everything in a wheel, and is the same each time."""

from __future__ import annotations

from tests.packaging import licences, sbom


def test_the_bill_is_whole() -> None:
    bill = sbom.bill()
    assert bill == sbom.bill()
    found = {(each["name"], each["version"]) for each in bill["components"] if each["purl"].startswith("pkg:cargo/")}
    assert found == licences.locked_crates()
    assert all(each["hashes"] for each in bill["components"] if each["purl"].startswith("pkg:cargo/"))
    python = {each["name"] for each in bill["components"] if each["purl"].startswith("pkg:pypi/")}
    assert {"click", "kazoo", "msgspec", "rich", "pyspark"} <= python
    assert not {"pytest", "ruff", "mypy"} & python
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len(refs) == len(set(refs))

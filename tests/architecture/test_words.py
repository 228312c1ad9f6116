"""Comments, docstrings and Markdown use words, and no codes that the repository does not define.

A test's mark names the points that it proves (`@pytest.mark.checklist(12, "X5")`, `// checklist: 12, X5`), and
`tests/kip` has the full text of each number and name. Anywhere else, a number of the checklist needs the word:
"checklist 255". KIP-516, KAFKA-12345, CVE-2018-1288 and RFC 5802 are public and may be named everywhere.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.prose import ROOT, files, prose, texts_of_python

WIDTH = 120
"""Limit of a line of Markdown and YAML; yamllint, which `make deploy-check` runs, has the same limit."""
UNDEFINED = re.compile(
    r"(?<![\w.#/-])[A-IRUX]\d{1,2}(?!\w)"  # R7, X22, A23: rules, readings and cases
    r"|\(A?[A-Z](?=[,;)])"  # (G, …), (V): a letter for a group of points
    r"|[a-z]\s+\((?:[12]\d\d|3[0-3]\d)(?=[,)])"  # (209): a point without the word
    r"|\b[Gg]roups? A?[A-Z]\b(?!')"
    r"|\bchecklist A?[A-Z]\b"
    r"|\b[Pp]oints? \d+\b(?! ?(%|ms|s\b))"
    r"|\b[Ii]ssues? #?\d+\b"
    r"|\b(?:DESIGN|STYLE|RELIABILITY|PROTOCOL|PERFORMANCE|SPARK|FEATURES)\b(?!-)(?:\.md)?(?!\w)"
    r"|\b[Tt]he seeds\b"
)
QUOTED = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def codes(name: str, text: str) -> list[str]:
    """Yield each code that a reader could not look up, with its line."""
    found = []
    for first, passage in prose(name, text):
        bare = QUOTED.sub(_unquoted, passage)
        for match in UNDEFINED.finditer(bare):
            found.append(f"{first + bare.count(chr(10), 0, match.start())}: {match[0].rpartition('(')[2]}")
    return found


def _unquoted(quoted: re.Match[str]) -> str:
    """Return the text without backticked parts, which are names of other things; keep a part that is only a code."""
    return quoted[0] if UNDEFINED.fullmatch(quoted[0].strip("`")) else "\n" * quoted[0].count("\n")


def test_no_comment_cites_what_is_defined_nowhere() -> None:
    wrong = [f"{name}:{code}" for name in files() for code in codes(name, (ROOT / name).read_text())]
    assert wrong == [], "say it in words, or in a test's mark; tests/kip defines the codes"


def wide(text: str) -> list[int]:
    """Return the numbers of lines that do not fit into a terminal, except rows of tables, which cannot be broken."""
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if len(line) > WIDTH and not line.startswith("|")]


def test_markdown_and_yaml_are_wrapped() -> None:
    texts = [name for name in files() if name.endswith((".md", ".yml", ".yaml"))]
    found = [f"{name}:{line}" for name in texts for line in wide((ROOT / name).read_text())]
    assert found == []
    assert wide(f"{'a' * 121}\n{'a' * 120}\n| {'a' * 121} |\n") == [1]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""Why (R7)."""\n\nx = 1  # X22, A5–A6\n', ["3: X22", "3: A5", "3: A6", "1: R7"]),
        ("a.py", 'x = "R7"\n', []),
        ("a.py", 'class A:\n    b: int\n    """As in\n    U3."""\n', ["4: U3"]),
        (
            "a.rs",
            'let a = "told (R4)"; // DESIGN.md 3\n/* the seeds */ let r2 = R2;',
            ["1: R4", "1: DESIGN.md", "2: the seeds"],
        ),
        ("a.rs", "    // checklist: 12, R5\n    #[test]\n    fn a() { let quote = '\"'; } // D3\n", ["3: D3"]),
        (
            "a.md",
            "group M, groups F to L, checklist AB, point 5, issue 3",
            ["1: group M", "1: groups F", "1: checklist AB", "1: point 5", "1: issue 3"],
        ),
        (
            "a.md",
            "KIP-516, KAFKA-1, CVE-2018-1288, RFC 5802, SPARK-55583, v13, checklist 255, `--group G`, `a-zA-Z0-9`",
            [],
        ),
        ("a.md", "```\n--group G\n```\n`R7`\n", ["4: R7"]),
        ("a.py", "# has its id before (209), sendfile(2), (16 bytes), UNKNOWN_TOPIC_ID (100)\n", ["1: 209"]),
        ("Makefile", "X1 = 2 # group M\n", ["1: group M"]),
    ],
)
def test_codes_are_found(name: str, text: str, found: list[str]) -> None:
    assert codes(name, text) == found


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('log.info("a %s", {"b": 1})', ["a %s", "b"]),
        ('raise ValueError(f"c {d}")', ["c "]),
        ('click.echo("e")\nsay("f", err=True)\nyield_(bad("g", "h"))', ["e", "f", "g", "h"]),
        ('click.option("--x", help="i" if y else f"j {k}", metavar="Z")', ["i", "j "]),
        ('group(epilog="l", short_help="m")', ["l", "m"]),
        ('ConfigKey("n", INT, 1, "o.", at_least(1))', ["n", "o."]),
        ('named("p", "Q", "r", complete=s)', ["p", "Q", "r"]),
        ('raise Error(describe(help="once"))', ["once"]),
        ('x = "neither"\nf("nor this", y="or that")', []),
    ],
)
def test_texts_that_people_read_are_found(source: str, texts: list[str]) -> None:
    assert sorted(texts_of_python(ast.parse(source))) == sorted(texts)

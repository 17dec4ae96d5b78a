"""The commands of README.md and docs/*.md are run as they are printed: each page against a fresh server, its blocks in order and in
one shell. A command that fails, and a request that is answered with 400 or more, fails the page.

What a page leaves to other pages is in comments of HTML, which readers do not see:

    <!-- before          shell that is run at this place, usually at the top of the page: users that the examples name, files
    …                    (`eventually COMMAND` repeats a command until it succeeds; "$PAGE" is the file)
    -->
    <!-- not run: reason -->    directly above a block that cannot be run here

    python documentation.py [PAGE...]
"""

import os
import pathlib
import re
import subprocess
import sys

from sandbox import check
from server import BINARY, Server

ROOT = pathlib.Path(__file__).parent.parent.parent
DIRECTORY = pathlib.Path(os.environ["CASE_DIRECTORY"])
LISTEN = "127.0.0.1:7070"
PAGE_SECONDS_MAX = 60
CURL = """#!/bin/sh
exec {curl} --fail-with-body --fail-early --show-error "$@"
"""
FIRST = """set -euo pipefail
AUTH="Authorization: Bearer $(cat fantail-data/default.key)"; API=http://127.0.0.1:7070/api/v1; JSON='Content-Type: application/json'
eventually() { for _ in $(seq 200); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.05; done; echo "never: $*" >&2; return 1; }
"""


def pieces(text):
    """(line, shell, whether it is shown, reason why it is not run) of every block, and of what comes before, in their order."""
    pattern = r"^<!-- before\n(?P<before>.*?)^-->$|(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```sh\n(?P<block>.*?)^```$"
    for found in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start()) + 1
        yield line, found["block"] or found["before"] or "", found["block"] is not None, found["reason"]


def programs():
    """`fantail`, and a curl that fails by the status of its answers."""
    directory = DIRECTORY / "programs"
    directory.mkdir()
    (directory / "fantail").symlink_to(BINARY)
    curl = subprocess.run(["sh", "-c", "command -v curl"], capture_output=True, text=True, check=True).stdout.strip()
    (directory / "curl").write_text(CURL.format(curl=curl))
    (directory / "curl").chmod(0o755)
    return directory


def run_page(page, path):
    text = page.read_text()
    found = list(pieces(text))
    known = sum(1 for _, _, is_block, _ in found if is_block)
    check(f"{path}: every block is understood", known, len(re.findall("^ *```sh", text, re.MULTILINE)))
    blocks = [(line, shell) for line, shell, _, reason in found if reason is None]
    if not any(is_block for _, _, is_block, reason in found if reason is None):
        return
    script = FIRST + "".join(f"echo 'line {line} of {path}' >&2\n{shell}\n" for line, shell in blocks)
    place = DIRECTORY / path.replace("/", "-")
    with Server(place, LISTEN, "fantail-data"):
        env = {**os.environ, "PAGE": str(page), "PATH": f"{DIRECTORY / 'programs'}:{os.environ['PATH']}"}
        command = ["bash", "-c", script]
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=PAGE_SECONDS_MAX)
    said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}" if done.returncode else ""
    check(f"{path}: {len(blocks)} blocks work", (done.returncode, said), (0, ""))


def fault(page, path):
    """What is wrong with a page, so that the others are run all the same."""
    try:
        run_page(page, path)
    except (AssertionError, subprocess.TimeoutExpired) as failed:
        return str(failed)
    return None


def main():
    programs()
    pages = [ROOT / name for name in sys.argv[1:]] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    faults = [fault(page, str(page.relative_to(ROOT))) for page in pages if "```sh" in page.read_text()]
    check("pages that do not work", [one for one in faults if one], [])


main()

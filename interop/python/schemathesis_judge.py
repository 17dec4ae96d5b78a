"""schemathesis asks a server what /openapi.json promises: examples, edges, random requests and sequences of them.

FANTAIL_OPENAPI_CASES says how many at least (500), FANTAIL_OPENAPI_SEED which ones (1). What is known to fail stands in
interop/openapi-known.json; entries are only taken away from it. FANTAIL_OPENAPI_RECORD=1 writes down what fails now.
"""

import json
import math
import os
import pathlib
import subprocess
import urllib.request

from sandbox import check
from server import Server

HERE = pathlib.Path(__file__).parent
DIRECTORY = pathlib.Path(os.environ["CASE_DIRECTORY"])
KNOWN = HERE.parent / "openapi-known.json"
CASES = int(os.environ.get("FANTAIL_OPENAPI_CASES", "500"))
SEED = os.environ.get("FANTAIL_OPENAPI_SEED", "1")
# A sample has examples and random requests; the whole also has every edge, and sequences.
PHASES = "examples,fuzzing" if CASES <= 2_000 else "examples,coverage,fuzzing,stateful"
RECORD = os.environ.get("FANTAIL_OPENAPI_RECORD") == "1"
OUTPUT_MAX = 20_000
METHODS = {"get", "put", "post", "patch", "delete"}
# A copy of all data for each request would fill the disk.
LEFT_OUT = "createBackup"


def operations(document):
    return sum(len(METHODS & set(path)) for path in document["paths"].values())


def command(url, key, each, report):
    words = ["schemathesis", "--config-file", str(HERE / "schemathesis.toml"), "run", f"{url}/openapi.json", "--url", url]
    words += ["-H", f"Authorization: Bearer {key}", "-H", "Fantail-Tenant: default"]
    words += ["--checks", "all", "--exclude-checks", "positive_data_acceptance", "--exclude-operation-id", LEFT_OUT]
    words += ["--phases", PHASES, "--max-examples", str(each), "--seed", SEED, "--continue-on-failure", "--no-shrink"]
    words += ["--suppress-health-check", "all", "--report", "json", "--report-json-path", str(report)]
    if RECORD:
        KNOWN.unlink(missing_ok=True)
        words += ["--baseline-update"]
    return words + (["--baseline", str(KNOWN)] if RECORD or KNOWN.exists() else [])


def failures(report):
    """What failed, a line each."""
    return [f"{failed['title']}: {operation}" for failed in report["failures"] for operation in failed["operations"]]


def main():
    report = DIRECTORY / "report.json"
    with Server(DIRECTORY) as server:
        document = json.load(urllib.request.urlopen(server.url + "/openapi.json"))
        each = math.ceil(CASES / operations(document))
        env = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)}
        words = command(server.url, server.key("admin"), each, report)
        done = subprocess.run(words, cwd=DIRECTORY, env=env, capture_output=True, text=True)
        log = server.log.read_text()
    assert report.exists(), done.stdout[-4_000:] + done.stderr[-4_000:]
    found = json.loads(report.read_text())
    made = found["test_cases"]["generated"]
    print(f"{made} requests to {operations(document)} operations, {each} of each; known to fail: {found['baseline']}", flush=True)
    check(f"{CASES} requests or more", made >= CASES, True)
    if done.returncode:
        print(done.stdout[:OUTPUT_MAX], *failures(found), *map(str, found["errors"]), sep="\n", flush=True)
    if not RECORD:
        check("no answer is another than the document says", done.returncode, 0)
    check("no panic", "panicked" in log, False)


main()

"""Clients that openapi-generator makes from the document: each is generated, compiled, and calls the main operations of a server.

    python openapi_clients.py python|go|typescript
"""

import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request

from openapi_generator_cli import run
from sandbox import check
from server import Server

HERE = pathlib.Path(__file__).parent
DIRECTORY = pathlib.Path(os.environ["CASE_DIRECTORY"])
# Of Go alone: constants of different enums share a package, and would have the same names.
OPTIONS = {
    "python": ["-g", "python", "--additional-properties=packageName=fantail_client"],
    "go": ["-g", "go", "--additional-properties=packageName=fantail,enumClassPrefix=true,withGoMod=false"],
    "typescript": ["-g", "typescript-fetch", "--additional-properties=supportsES6=true"],
}


def generate(language, url):
    document = DIRECTORY / "openapi.json"
    document.write_bytes(urllib.request.urlopen(url + "/openapi.json").read())
    made = DIRECTORY / "client"
    done = run(["generate", "-i", str(document), "-o", str(made), *OPTIONS[language]])
    check(f"{language}: the document is understood", done.returncode, 0)
    return made


def compile_and_call(language, made):
    """The command that calls, once the client and its caller are compiled."""
    if language == "python":
        must("python", "-m", "compileall", "-q", str(made / "fantail_client"))
        return ["python", str(HERE / "openapi_caller.py"), str(made)]
    if language == "go":
        # The one package that the client needs was downloaded before: here is no network.
        caller = shutil.copytree(HERE.parent / "go", DIRECTORY / "caller")
        shutil.copytree(made, caller / "fantail", ignore=shutil.ignore_patterns("test", "*_test.go", "go.*"))
        must("go", "build", "-mod=mod", "-o", "call", ".", cwd=caller)
        return [str(caller / "call")]
    node = HERE.parent / "node"
    caller = made / "openapi_caller.ts"
    shutil.copy(node / "openapi_caller.ts", caller)
    flags = ["--strict", "--target", "es2022", "--module", "commonjs", "--lib", "es2022,dom", "--skipLibCheck"]
    must("node", str(node / "node_modules/typescript/bin/tsc"), *flags, "--outDir", str(DIRECTORY / "js"), str(caller))
    return ["node", str(DIRECTORY / "js" / "openapi_caller.js")]


def must(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"


def main():
    language = sys.argv[1]
    with Server(DIRECTORY) as server:
        made = generate(language, server.url)
        caller = compile_and_call(language, made)
        print(f"ok {language}: the client compiles", flush=True)
        called = subprocess.run([*caller, server.url, server.key()], capture_output=True, text=True)
        print(called.stdout, end="", flush=True)
        check(f"{language}: it calls", (called.returncode, called.stderr[-2000:]), (0, ""))


main()

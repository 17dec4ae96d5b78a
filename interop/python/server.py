"""A server of a case's own, from the binary that `fantail_command` is."""

import json
import os
import pathlib
import re
import subprocess

BINARY = json.loads(os.environ["FANTAIL_BINS"])["fantail_command"]


class Server:
    """`url` and `data` of a server that is ready, and the keys that it made. Ends with the `with` block."""

    def __init__(self, directory, listen="127.0.0.1:0", data="data", environment=None):
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.data = directory / data
        self.log = directory / "server.log"
        command = [BINARY, "serve", "--data", str(self.data), "--listen", listen]
        env = {**os.environ, **(environment or {})}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        banner = ""
        for line in self.process.stdout:
            banner += line
            if line.strip() == "ready":
                break
        found = re.search(r"api +(http://\S+)/api/v1", banner)
        assert found, f"the server did not start: {banner}{self.log.read_text()[-4000:]}"
        self.url = found.group(1)

    def key(self, name="default"):
        return (self.data / f"{name}.key").read_text().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

"""Asks our own code (crates/channels/examples/verdicts.rs): one question in, one answer out."""

import json
import os
import subprocess


class Verdicts:
    def __init__(self):
        path = json.loads(os.environ["FANTAIL_BINS"])["verdicts"]
        self.child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, question):
        self.child.stdin.write(json.dumps(question) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self):
        self.child.stdin.close()
        self.child.wait()

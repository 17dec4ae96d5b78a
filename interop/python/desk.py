"""Our senders of mail, as a process that takes one JSON object per line and answers with one."""

import json
import os
import subprocess


class Desk:
    def __init__(self):
        path = json.loads(os.environ["FANTAIL_BINS"])["mail_desk"]
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)

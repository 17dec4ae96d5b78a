"""Starts our sender: one shipment by one provider, and its answers."""

import json
import os
import subprocess


def send_one(ask):
    """The answers, in the order of the messages."""
    sender = json.loads(os.environ["FANTAIL_BINS"])["send_one"]
    done = subprocess.run([sender], input=json.dumps(ask), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]

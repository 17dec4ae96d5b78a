"""Prometheus judges our alerts: promtool runs ops/alerts.test.yml, where every alert has to fire once and to be silent on a healthy day.

fixes: interop F5
"""

import pathlib
import re
import subprocess

from sandbox import check

OPS = pathlib.Path(__file__).parent.parent.parent / "ops"


def promtool(*words):
    done = subprocess.run(["promtool", *words], cwd=OPS, capture_output=True, text=True)
    check(" ".join(["promtool", *words]), (done.returncode, done.stdout[-4000:] if done.returncode else ""), (0, ""))


def main():
    alerts = re.findall(r"- alert: (\w+)", (OPS / "alerts.yml").read_text())
    tests = (OPS / "alerts.test.yml").read_text()
    silent = re.findall(r"alertname: (\w+), exp_alerts: \[\]", tests)
    fired = re.findall(r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels", tests)
    check("every alert is silent on the healthy day", sorted(silent), sorted(alerts))
    check("every alert has a case on which it fires", sorted(set(fired)), sorted(alerts))
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts.test.yml")


main()

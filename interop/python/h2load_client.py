"""h2load against the sandbox: many streams over several connections, each of which begins with one."""

import os
import subprocess
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from sandbox import check, control, device

COUNT = 20_000


def main():
    key = ec.generate_private_key(ec.SECP256R1())
    token = jwt.encode({"iss": "TEAM", "iat": int(time.time())}, key, algorithm="ES256", headers={"kid": "KEY"})
    payload = os.path.join(os.environ["CASE_DIRECTORY"], "payload.json")
    with open(payload, "w", encoding="utf-8") as file:
        file.write('{"aps":{"alert":"hello"}}')
    url = f"https://api.push.apple.com/3/device/{device('ab')}"
    headers = [f"authorization: bearer {token}", "apns-topic: com.example.app"]
    flags = [part for header in headers for part in ("-H", header)]
    command = ["h2load", "-n", str(COUNT), "-c", "4", "-m", "200", "-d", payload, *flags, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("status codes", "requests"))]
    check("every request is done", f"{COUNT} done, {COUNT} succeeded, 0 failed" in lines[0], True)
    check("and taken", f"{COUNT} 2xx" in lines[1], True)
    check("and recorded", control("GET", "/messages?limit=1")["arrived"], COUNT)
    control("PUT", "/faults/apns", {"goAwayEvery": 100})
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    arrived = control("GET", "/messages?limit=1")["arrived"] - COUNT
    lines = [line for line in done.stdout.splitlines() if line.startswith("status codes")]
    check("what is answered before a GOAWAY was taken", f"{arrived} 2xx" in lines[0] and arrived > 0, True)


main()

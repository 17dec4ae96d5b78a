"""swaks against the sandbox's SMTP server: STARTTLS, TLS, logins, pipelining and refusals."""

import json
import os
import subprocess

from sandbox import check, control, judge

PLACES = json.loads(os.environ["SANDBOX_PLACES"])


def place(name):
    own = PLACES.get("own", PLACES)
    return own[name]


def swaks(name, to, reference, *more):
    command = [
        "swaks", "--server", place(name).rsplit(":", 1)[0], "--port", place(name).rsplit(":", 1)[1],
        "--from", f"bounce+{reference}@shop.example", "--to", to, "--header", f"Message-Id: <{reference}@shop.example>",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def main():
    # swaks speaks TLS only with this module, which its package only recommends.
    has_tls = subprocess.run(["perl", "-MNet::SSLeay", "-e", "1"], capture_output=True).returncode == 0
    (starttls, tls), name = (["--tls"], ["--tlsc"]) if has_tls else ([], []), "smtps" if has_tls else "smtp"
    if not has_tls:
        print("not checked: TLS, because perl has no Net::SSLeay")
    check("in the clear", swaks("smtp", "ann@a.example", "r1")[0], 0)
    login = ["-au", "me", "-ap", "x"]
    check("STARTTLS and a login", swaks("smtp", "bob@a.example", "r2", *starttls, "--auth", "PLAIN", *login)[0], 0)
    check("TLS and the other login", swaks(name, "cid@a.example", "r3", *tls, "--auth", "LOGIN", *login)[0], 0)
    check("pipelining", swaks("smtp", "dan@a.example", "r4", "--pipeline")[0], 0)
    code, output = swaks("smtp", "sandbox-550-5.1.1@a.example", "r5")
    check("a refused recipient", (code, "550 5.1.1" in output), (24, True))
    code, output = swaks("smtp", "sandbox-dot-554-5.7.1@a.example", "r6")
    check("a refused mail", (code, "554 5.7.1" in output), (26, True))
    control("PUT", "/smtp/settings", {"authNeeded": True, "username": "me", "password": "right"})
    check("a wrong password", swaks("smtp", "ann@a.example", "r7", "--auth", "PLAIN", "-au", "me", "-ap", "wrong")[0], 28)
    people = {"r1": "ann", "r2": "bob", "r3": "cid", "r4": "dan"}
    judge([{"id": reference, "recipient": f"{name}@a.example"} for reference, name in people.items()])


main()

"""Our SMTP client before postfix, and our reader of reports before the ones that postfix writes."""

import pathlib
import shutil
import subprocess
import tempfile
import time

from desk import Desk
from sandbox import check

MAIN = """
compatibility_level = 3.6
config_directory = {home}/etc
queue_directory = {home}/queue
data_directory = {home}/data
myhostname = relay.example
mydestination = relay.example, shop.example, mail.example
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
local_recipient_maps =
recipient_delimiter = +
alias_maps = hash:{home}/etc/aliases
alias_database =
smtpd_tls_security_level = none
message_size_limit = 20000
bounce_queue_lifetime = 1d
"""
WAIT_S = 30


def waited(what, ask):
    for _ in range(WAIT_S * 10):
        found = ask()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come")


def start(home):
    for name, mode in (("etc", 0o755), ("queue", 0o755), ("data", 0o755), ("mail", 0o777)):
        (home / name).mkdir()
        (home / name).chmod(mode)
    shutil.chown(home / "data", "postfix")
    (home / "etc" / "main.cf").write_text(MAIN.format(home=home))
    master = pathlib.Path("/usr/share/postfix/master.cf.dist").read_text()
    lines = [line for line in master.splitlines() if line and not line.startswith("#")]
    # Nothing runs in a chroot here, and the port is one of ours.
    lines = [line.replace(" y ", " n ") for line in lines if not line.startswith("smtp      inet")]
    lines.append("127.0.0.1:8026 inet n - n - - smtpd")
    (home / "etc" / "master.cf").write_text("\n".join(lines) + "\n")
    (home / "etc" / "aliases").write_text(f"bounce: {home}/mail/bounces\nann: {home}/mail/ann\n")
    subprocess.run(["postalias", "-c", home / "etc", f"hash:{home}/etc/aliases"], check=True)
    # A session of its own: when it stops, it ends its whole group.
    return subprocess.Popen(["postfix", "-c", home / "etc", "start-fg"], start_new_session=True)


def mails(path):
    """Of a mailbox file, each as it was delivered."""
    if not path.exists():
        return []
    parts = path.read_text(errors="replace").split("\nFrom ")
    return [part.split("\n", 1)[1].replace("\n", "\r\n") for part in parts if "\n" in part]


def main():
    home = pathlib.Path(tempfile.mkdtemp(prefix="fantail-postfix-"))
    home.chmod(0o755)
    server = start(home)
    try:
        desk = Desk()
        settings = {
            "host": "localhost",
            "connectTo": "127.0.0.1:8026",
            "security": "none",
            "fromAddress": "news@shop.example",
        }
        people = ["ann@mail.example", "nobody-here@mail.example", "someone@elsewhere.invalid"]
        ask = {
            "send": "smtp",
            "settings": settings,
            "secrets": {},
            "content": {"subject": "Grüße", "html": "<p>Hallo</p>\n<p>.</p>"},
            "messages": [{"reference": f"ref{no}", "to": to} for no, to in enumerate(people)],
        }
        answers = waited("postfix", lambda: [a for a in desk.ask(**ask)["answers"] if a.startswith("accepted ")])
        check("postfix takes our mails and says as what", all(len(answer) > 12 for answer in answers), True)
        [mail] = waited("the mail", lambda: mails(home / "mail" / "ann"))[:1]
        check("the mail arrived whole", "Message-ID: <ref0@shop.example>" in mail, True)
        reports = waited("the report", lambda: [mail for mail in mails(home / "mail" / "bounces") if "5.1.1" in mail])
        told = desk.ask(report=reports[0])
        check("its report is read", told["events"][0]["outcome"], "Bounced { hard: true }")
        check("and names the delivery", (told["events"][0]["reference"], told["events"][0]["code"]), ("ref1", "5.1.1"))
        big = {**ask, "content": {"subject": "big", "text": "x" * 30_000}, "messages": ask["messages"][:1]}
        check("a mail that is too large", desk.ask(**big)["answers"], ["rejected Message 552 5.3.4"])
        desk.close()
    finally:
        subprocess.run(["postfix", "-c", home / "etc", "stop"], stderr=subprocess.DEVNULL)
        server.wait(timeout=20)
        shutil.rmtree(home, ignore_errors=True)


main()

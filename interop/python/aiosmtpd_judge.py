"""Our SMTP client before aiosmtpd, with scripted replies; our signatures before dkimpy, keys from its dnsfunc."""

import base64

import dkim
from aiosmtpd.controller import Controller
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from desk import Desk
from sandbox import check

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED25519 = ed25519.Ed25519PrivateKey.generate()


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def public(key, kind, form):
    encoding = serialization.Encoding.DER if kind == "rsa" else serialization.Encoding.Raw
    data = base64.b64encode(key.public_key().public_bytes(encoding, form)).decode()
    return f"v=DKIM1; k={kind}; p={data}".encode()


KEYS = {
    b"r1._domainkey.shop.example.": public(RSA, "rsa", serialization.PublicFormat.SubjectPublicKeyInfo),
    b"e1._domainkey.shop.example.": public(ED25519, "ed25519", serialization.PublicFormat.Raw),
}


class Handler:
    """Does as the recipient's name says; keeps what it took."""

    def __init__(self):
        self.taken = []

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("rcpt-"):
            return address.split("@")[0][5:].replace("-", " ", 1) + " as told"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(self, server, session, envelope):
        to = envelope.rcpt_tos[0]
        if to.startswith("dot-"):
            return to.split("@")[0][4:].replace("-", " ", 1) + " as told"
        self.taken.append((envelope.mail_from, to, envelope.original_content))
        return "250 2.0.0 ok: queued as A1"


CHANGES = [
    (b"/h/out/", b"/h/0ut/"),
    (b"One-Click", b"0ne-Click"),
    (b"Message-ID: <r", b"Message-ID: <x"),
    (b"multipart/alternative", b"multipart/mixed"),
    (b"Hallo", b"Hello"),
]


def holds(signer, index):
    try:
        return signer.verify(idx=index, dnsfunc=lambda name, timeout=5: KEYS.get(name))
    except dkim.ValidationError:
        return False


def verified(mail):
    signer = dkim.DKIM(mail)
    return [holds(signer, index) for index in (0, 1)]


def main():
    handler = Handler()
    server = Controller(handler, hostname="127.0.0.1", port=8025, server_hostname="relay.example")
    server.start()
    desk = Desk()
    settings = {
        "host": "localhost",
        "connectTo": "127.0.0.1:8025",
        "security": "none",
        "fromAddress": "news@shop.example",
        "fromName": "Shöp",
        "tracking": True,
        "unsubscribeMailbox": "out@shop.example",
        "dkim": {"domain": "shop.example", "rsaSelector": "r1", "ed25519Selector": "e1"},
    }
    secrets = {"dkimRsaKey": pem(RSA), "dkimEd25519Key": pem(ED25519)}
    content = {
        "subject": "Grüße aus Wien: eine Nachricht mit einem ziemlich langen Betreff, der umbrochen wird",
        "html": "<p>Hallo <a href='https://shop.example/?a=1&amp;b=2'>du</a>,</p><p>.</p><p>" + "lang " * 40 + "</p>",
    }
    scripted = [
        ("ann@a.example", "accepted A1"),
        ("rcpt-550-5.1.1@b.example", "rejected DeadEndpoint 550 5.1.1"),
        ("rcpt-451-4.7.1@c.example", "later Message 451 4.7.1"),
        ("dot-552-5.3.4@d.example", "rejected Message 552 5.3.4"),
        ("rcpt-421-4.3.2@e.example", "later Message 421 4.3.2"),
        ("dot-554-5.7.1@f.example", "later Message 554 5.7.1"),
        ("bob@g.example", "accepted A1"),
    ]
    messages = [
        {"reference": f"r{no}", "to": to, "unsubscribe": f"https://notify.shop.example/h/out/{no}"}
        for no, (to, _) in enumerate(scripted)
    ]
    told = desk.ask(send="smtp", settings=settings, secrets=secrets, messages=messages, content=content)
    for (to, expected), answer in zip(scripted, told["answers"]):
        check(f"{to}", answer, expected)
    check("who has a mail", sorted(to for _, to, _ in handler.taken), ["ann@a.example", "bob@g.example"])
    for mail_from, _, mail in handler.taken:
        check("the envelope carries the reference", mail_from.startswith("bounce+r"), True)
        check("both signatures hold", verified(mail), [True, True])
        for found, other in CHANGES:
            changed = mail.replace(found, other, 1)
            check(f"not if {found!r} was changed", (changed != mail, verified(changed)), (True, [False, False]))
        doubled = mail.replace(b"\r\nFrom: ", b"\r\nFrom: evil@evil.example\r\nFrom: ", 1)
        check("nor with a second From", verified(doubled), [False, False])
    desk.close()
    server.stop()


main()

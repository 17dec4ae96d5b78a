"""Our APNs sender against nghttpd, which prints every frame it takes apart, and PyJWT, which checks the provider token."""

import datetime
import json
import os
import re
import subprocess
import time

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sandbox import check

PUSHES = 300
STREAMS_MAX = 20
PORT = 8443
DIRECTORY = os.environ["CASE_DIRECTORY"]


def place(name):
    return os.path.join(DIRECTORY, name)


def write(name, text):
    os.makedirs(os.path.dirname(place(name)), exist_ok=True)
    with open(place(name), "w") as file:
        file.write(text)


def pem(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def certificate():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    write("server.key", pem(key))
    write("server.pem", made.public_bytes(serialization.Encoding.PEM).decode())


def serve():
    for number in range(PUSHES):
        write(f"htdocs/3/device/{number:064x}", "taken")
    log = open(place("nghttpd.log"), "w")
    command = ["nghttpd", "-v", f"-m{STREAMS_MAX}", "-d", place("htdocs")]
    command += [str(PORT), place("server.key"), place("server.pem")]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    until = time.monotonic() + 10
    while "listen" not in open(place("nghttpd.log")).read():
        if server.poll() is not None or time.monotonic() > until:
            raise SystemExit("nghttpd does not start: " + open(place("nghttpd.log")).read())
        time.sleep(0.05)
    return server


def frames(log):
    """(received, kind, flags, stream) of every frame, and the headers of every stream."""
    seen, headers = [], {}
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    for line in plain.splitlines():
        frame = re.search(r"(send|recv) (\w+) frame <length=\d+, flags=0x(\w+), stream_id=(\d+)>", line)
        header = re.search(r"recv \(stream_id=(\d+)(?:, sensitive)?\) ([^ ]+): (.*)", line)
        if frame:
            seen.append((frame[1] == "recv", frame[2], int(frame[3], 16), int(frame[4])))
        elif header:
            headers.setdefault(int(header[1]), {})[header[2]] = header[3]
    return plain, seen, headers


def main():
    certificate()
    key = ec.generate_private_key(ec.SECP256R1())
    settings = {
        "teamId": "DEF123GHIJ", "keyId": "ABC123DEFG", "topic": "com.example.app", "environment": "production",
        "endpoint": f"https://localhost:{PORT}", "caPem": open(place("server.pem")).read(), "connections": 1,
    }
    write("settings.json", json.dumps(settings))
    write("secrets.json", json.dumps({"p8": pem(key)}))
    server = serve()
    try:
        binary = json.loads(os.environ["FANTAIL_BINS"])["apns_push"]
        command = [binary, place("settings.json"), place("secrets.json"), str(PUSHES)]
        answers = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    finally:
        server.terminate()
        server.wait()
    accepted = [line for line in answers.splitlines() if " Accepted " in line]
    check("every push is answered", (len(answers.splitlines()), len(accepted)), (PUSHES, PUSHES))
    plain, seen, headers = frames(open(place("nghttpd.log")).read())
    judge(plain, seen, headers, key.public_key())


def judge(plain, seen, headers, public):
    check("nghttpd finds no fault", [line for line in plain.splitlines() if "rror" in line], [])
    kinds = {kind for is_ours, kind, _, _ in seen if is_ours}
    check("no PRIORITY, no RST_STREAM", kinds & {"PRIORITY", "RST_STREAM"}, set())
    began = [stream for is_ours, kind, _, stream in seen if is_ours and kind == "HEADERS"]
    check("a stream for each push", (len(began), len(set(began))), (PUSHES, PUSHES))
    ended = [stream for is_ours, kind, flags, stream in seen if is_ours and kind == "DATA" and flags & 1]
    check("each ends with its body", sorted(ended), sorted(began))
    under_way, most, before_first = set(), 0, None
    for is_ours, kind, flags, stream in seen:
        if is_ours and kind == "HEADERS":
            under_way.add(stream)
            most = max(most, len(under_way))
        elif not is_ours and stream and flags & 1 and kind in ("HEADERS", "DATA"):
            before_first = most if before_first is None else before_first
            under_way.discard(stream)
    check("one stream until the first success", before_first, 1)
    check("never more than the server allows, and as many", most, STREAMS_MAX)
    first = headers[began[0]]
    wanted = {
        ":method": "POST", ":scheme": "https", ":authority": f"localhost:{PORT}",
        "apns-topic": "com.example.app", "apns-push-type": "alert", "apns-priority": "10", "apns-collapse-id": "greeting",
    }
    check("headers are Apple's", {name: first.get(name) for name in wanted}, wanted)
    expires = int(first["apns-expiration"]) - time.time()
    check("expiry is an hour from now", 3_500 < expires < 3_700, True)
    ids = {headers[stream]["apns-id"] for stream in began}
    check("every push has an id of its own", len(ids), PUSHES)
    tokens = {headers[stream]["authorization"] for stream in began}
    check("one provider token for all", len(tokens), 1)
    scheme, token = tokens.pop().split(" ")
    claims = jwt.decode(token, public, algorithms=["ES256"], options={"verify_iat": True})
    check("PyJWT verifies the token", (scheme, claims["iss"], set(claims)), ("bearer", "DEF123GHIJ", {"iss", "iat"}))
    check("made now", abs(claims["iat"] - time.time()) < 60, True)
    check("by the right key", jwt.get_unverified_header(token)["kid"], "ABC123DEFG")


main()

"""The audit log of a real server, exported to moto with Object Lock: put once, locked, resumed, and verified as a copy."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import urllib.request

import boto3
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer
from sandbox import check

FANTAIL = json.loads(os.environ["FANTAIL_BINS"])["fantail_command"]
PLACE = pathlib.Path(os.environ["CASE_DIRECTORY"])
DATA, BUCKET = PLACE / "data", "audit-log"
LISTEN = "127.0.0.1:7070"

moto = ThreadedMotoServer(ip_address="127.0.0.1", port=5000, verbose=False)
moto.start()
ENDPOINT = "http://127.0.0.1:5000"
keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
s3 = boto3.client("s3", endpoint_url=ENDPOINT, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
s3.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)


def fantail(*arguments):
    done = subprocess.run([FANTAIL, *arguments], env={**os.environ, **keys}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def export():
    code, said = fantail("audit", "export", "--data", str(DATA), "--to", f"s3://{BUCKET}/prod", "--retain-days", "30", "--endpoint", ENDPOINT)
    assert code == 0, said
    return said.splitlines()[0]


def live(users):
    """A server that has something to write down, until it is stopped."""
    server = subprocess.Popen([FANTAIL, "serve", "--listen", LISTEN, "--data", str(DATA)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert any(line.strip() == "ready" for line in server.stdout), "the server did not start"
    key = (DATA / "default.key").read_text().strip()
    for user in users:
        body = json.dumps({"email": f"{user}@example.com"}).encode()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"http://{LISTEN}/api/v1/users/{user}", data=body, method="PUT", headers=headers)).read()
        body = json.dumps({"events": [], "url": f"https://example.com/{user}"}).encode()
        urllib.request.urlopen(urllib.request.Request(f"http://{LISTEN}/api/v1/webhooks", data=body, method="POST", headers=headers)).read()
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=30)


def names():
    return sorted(one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []))


live(["ann", "bob"])
first = export()
check("segments, checkpoints and keys are put and read back", [first.endswith("; 0 were there"), len(names()) >= 3], [True, True])
segment = next(name for name in names() if name.startswith("prod/log/"))
held = s3.head_object(Bucket=BUCKET, Key=segment, ChecksumMode="ENABLED")
check("a segment is locked for nobody to shorten", [held["ObjectLockMode"], held["ObjectLockRetainUntilDate"] is not None], ["COMPLIANCE", True])
try:
    s3.delete_object(Bucket=BUCKET, Key=segment, VersionId=held["VersionId"])
    check("it cannot be deleted", "deleted", "refused")
except ClientError as error:
    check("it cannot be deleted", error.response["Error"]["Code"], "AccessDenied")

check("the next export finds everything", export().startswith("0 objects put"), True)

live(["zoe"])
before = len(names())
again = export()
check("what is new is put, what was there is not", [len(names()) > before, int(again.rsplit(";", 1)[1].split()[0]) >= 2], [True, True])

# Somebody with rights puts another version over a segment: the export notices, and puts the right one on top.
s3.put_object(Bucket=BUCKET, Key=segment, Body=b"x" * held["ContentLength"])
check("a changed object is put again", export().startswith("1 objects put"), True)

copy = PLACE / "copy" / "audit"
for name in names():
    target = copy / name.removeprefix("prod/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())
newest = max(copy.glob("public-*.keys"), key=lambda path: int(path.stem.split("-")[1]))
notes = sorted((copy / "notes").iterdir())
shutil.copy(newest, copy / "public.keys")
code, said = fantail("audit", "verify", "--data", str(PLACE / "copy"), "--checkpoint", str(notes[-1]))
check("a downloaded copy verifies", [code, said.strip().endswith("sound")], [0, True])
damaged = copy / segment.removeprefix("prod/")
content = bytearray(damaged.read_bytes())
content[len(content) // 2] ^= 1
damaged.write_bytes(bytes(content))
code, said = fantail("audit", "verify", "--data", str(PLACE / "copy"))
check("and a changed one does not", code != 0, True)
code, said = fantail("audit", "export", "--data", str(PLACE / "copy"), "--to", f"s3://{BUCKET}/bad", "--endpoint", ENDPOINT)
check("what is damaged is not exported", [code != 0, [name for name in names() if name.startswith("bad/")]], [True, []])
moto.stop()

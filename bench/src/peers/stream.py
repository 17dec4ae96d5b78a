# Arguments: the file of lists, the port of Redis, events, seconds at most.
# Feeds are filled as the framework's own fan-out task does it, 100 at a time, in this one process.
import array, json, sys, time

from stream_framework import settings

settings.STREAM_REDIS_CONFIG = {
    "default": {"host": "127.0.0.1", "port": int(sys.argv[2]), "db": 0, "password": None}
}
from stream_framework.activity import Activity
from stream_framework.feeds.redis import RedisFeed
from stream_framework.verbs.base import Love

FEEDS_AT_ONCE = 100


class Inbox(RedisFeed):
    key_format = "inbox:%(user_id)s"
    max_length = 800


numbers = array.array("Q")
with open(sys.argv[1], "rb") as file:
    numbers.frombytes(file.read())
lists, at = [], 0
while at < len(numbers):
    length = numbers[at]
    lists.append(numbers[at + 1 : at + 1 + length])
    at += 1 + length

events, limit = int(sys.argv[3]), float(sys.argv[4])
rows, began, cpu = 0, time.monotonic(), time.process_time()
for event in range(events):
    activity = Activity(actor=event % len(lists), verb=Love, object=event)
    Inbox.insert_activity(activity)
    users = lists[event % len(lists)]
    for first in range(0, len(users), FEEDS_AT_ONCE):
        some = users[first : first + FEEDS_AT_ONCE]
        with Inbox.get_timeline_batch_interface() as batch:
            for user in some:
                Inbox(user).add_many([activity], batch_interface=batch, trim=False)
        rows += len(some)
    if time.monotonic() - began >= limit:
        break
seconds, cpu = time.monotonic() - began, time.process_time() - cpu
print(json.dumps({"rows": rows, "seconds": seconds, "cpu_seconds": cpu, "bytes": None}))

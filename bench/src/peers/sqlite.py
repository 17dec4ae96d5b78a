# Arguments: the file of lists, the database, events, seconds at most.
import array, json, sqlite3, sys, time

numbers = array.array("Q")
with open(sys.argv[1], "rb") as file:
    numbers.frombytes(file.read())
lists, at = [], 0
while at < len(numbers):
    length = numbers[at]
    lists.append(numbers[at + 1 : at + 1 + length])
    at += 1 + length

database = sqlite3.connect(sys.argv[2], isolation_level=None)
database.execute("pragma journal_mode = wal")
database.execute("pragma synchronous = full")
database.execute("pragma cache_size = -262144")
database.execute(
    "create table inbox (user integer, event integer, flags integer, primary key (user, event)) without rowid"
)
events, limit = int(sys.argv[3]), float(sys.argv[4])
rows, began, cpu = 0, time.monotonic(), time.process_time()
for event in range(events):
    users = lists[event % len(lists)]
    database.execute("begin")
    database.executemany("insert into inbox values (?, ?, 0)", ((user, event) for user in users))
    database.execute("commit")
    rows += len(users)
    if time.monotonic() - began >= limit:
        break
seconds, cpu = time.monotonic() - began, time.process_time() - cpu
found = database.execute("select count(*) from inbox").fetchone()[0]
assert found == rows, f"{found} rows instead of {rows}"
print(json.dumps({"rows": rows, "seconds": seconds, "cpu_seconds": cpu, "bytes": None}))

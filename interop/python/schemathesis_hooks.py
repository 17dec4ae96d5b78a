"""What schemathesis does not know by itself: how values of our formats are written, rules that no schema can state, and which refusals
no schema can foresee.

A request that the document allows has to be accepted, unless it is refused for what it means: a user who does not exist, a text in a
language of its own (templates, filters, settings of a provider) that makes no sense, a cursor that nobody gave out, a time that has passed.
Where a rule is about several values at once (ids that differ, an address that fits its channel), the values are prepared here.
"""

import base64
import json
import re
import urllib.parse
from datetime import datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

# Codes that judge what a request means in this place and at this time.
ABOUT_MEANING = {
    "INVALID_FILTER",
    "INVALID_RECIPIENT",
    "INVALID_TEMPLATE",
    "INVALID_VARIABLES",
    "RENDER_FAILED",
    "VERSION_CONFLICT",
}
# Fields whose good values are given out by the server.
GIVEN_OUT = {"/cursor", "/since", "/before"}
# Places of an operation that are judged by something else: what an account needs by its kind, a channel by the template that there is.
BY_SOMETHING_ELSE = {"putProvider": ("/settings", "/credentials"), "previewTemplate": ("/channel",)}
# Details about the time of the request.
ABOUT_TIME = ("must be in the future", "must be within a year", "must be at most 366 days ahead")
# Lengths are counted in bytes of UTF-8, which no schema can do.
ABOUT_BYTES = "must have at most "


def format_of(name, strategy):
    schemathesis.openapi.format(name, strategy)


def secrets():
    return st.binary(min_size=24, max_size=64).map(lambda key: "whsec_" + base64.b64encode(key).decode())


def urls():
    label = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20)
    path = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.~/", max_size=40)
    return st.builds(lambda host, port, rest: f"https://{host}.example.com{port}/{rest}", label, st.sampled_from(["", ":443", ":8443"]), path)


def times():
    """Mostly near: what is said about a time is often that it lies ahead."""
    now = datetime.now(timezone.utc)
    offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
    near = st.builds(lambda minutes, offset: (now + timedelta(minutes=minutes)).astimezone(offset), st.integers(60, 300 * 24 * 60), offsets)
    far = st.datetimes(datetime(1971, 1, 1), datetime(9998, 12, 31), timezones=offsets)
    return st.one_of(near, near, near, far).map(lambda time: time.isoformat().replace("+00:00", "Z"))


ZONES = ["UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "America/Argentina/Buenos_Aires"]
format_of("time-zone", st.sampled_from(ZONES))
format_of("cron", st.sampled_from(["0 9 * * *", "30 8 * * mon-fri", "*/15 * * * *", "0 0 1 jan,jul *", "5 4 * * sun"]))
format_of("key-template", st.sampled_from(["{{ type }}", "{{ actor }}", "{{ type }}:{{ actor }}"]))
format_of("webhook-secret", secrets())
format_of("public-url", urls())
format_of("date-time", times())


@schemathesis.serializer("application/x-ndjson", "text/csv")
def lines(_, value):
    """A text is sent as it is. What is none becomes bytes that are no text either."""
    return value.encode() if isinstance(value, str) else b"\xff\n"


@schemathesis.hook
def before_call(context, case, kwargs):
    meta = case.meta
    if meta is None or meta.generation.mode.is_negative:
        return
    name = case.operation.definition.raw.get("operationId", "")
    if isinstance(case.body, (dict, list)):
        # A copy: values are shared between cases.
        case.body = prepared(name, json.loads(json.dumps(case.body)), case.path_parameters or {})
    if name == "putSegmentMembers" and isinstance(case.body, str):
        case.body = lines_of(case.body, json.dumps if "ndjson" in case.media_type else str)
    if name in {"sendNotification", "createBulk"} and has(case.body, "notificationId"):
        drop(case, "headers", "Idempotency-Key")
    if name == "listNotifications" and has(dict(case.query or {}), "cursor"):
        drop(case, "query", "since")
    if name == "listUsers" and has(dict(case.query or {}), "email"):
        # A page is that of one address.
        drop(case, "query", "phone")
    if name == "deleteTenant":
        case.query = {**dict(case.query or {}), "confirm": urllib.parse.unquote(str((case.path_parameters or {}).get("slug", "")))}
    tag = dict(case.headers or {}).get("If-Match")
    if tag is not None and not re.fullmatch(r'\*|"[0-9]{1,10}"', tag):
        # Combinations of headers come without the quotes that make it an entity tag.
        case.headers = {**dict(case.headers), "If-Match": '"1"'}
    if "address" in (case.path_parameters or {}):
        parameters = dict(case.path_parameters)
        parameters["address"] = address(parameters.get("channel"), parameters["address"])
        case.path_parameters = parameters


def has(fields, name):
    return isinstance(fields, dict) and fields.get(name) is not None


def drop(case, container, name):
    fields = dict(getattr(case, container) or {})
    for key in [key for key in fields if key.lower() == name.lower()]:
        del fields[key]
    setattr(case, container, fields)


def lines_of(text, written):
    """A user on each line, named by what was drawn."""
    return "".join(written(name) + "\n" for name in re.findall(r"\w+", text)[:100])


def address(channel, text):
    """One that the channel has, made from what was drawn."""
    number = int.from_bytes(str(text).encode()[:7] or b"0", "big")
    return {
        "email": f"u{number}@example.com",
        "sms": f"+43{number % 10**10:010}",
        "webhook": f"https://h{number}.example.com/",
    }.get(channel, f"t{number}")


def prepared(name, body, path):
    """The same with what no schema can say about several values at once."""
    consistent(body)
    for event in body if isinstance(body, list) else [body]:
        audience = ((event.get("data") or {}).get("audience") or {}) if name == "postEvents" else {}
        if event.get("actor") is not None and "followersOf" in audience:
            event["actor"] = audience["followersOf"]
    if name == "putTemplate":
        body["id"] = urllib.parse.unquote(str(path.get("template", body.get("id"))))
    if name in {"previewDraft", "previewTemplate"}:
        body.pop("variant", None)
    if name == "previewDraft":
        written = [channel for channel, content in ((body.get("definition") or {}).get("channels") or {}).items() if content]
        body["channel"] = body["channel"] if body.get("channel") in written or not written else written[0]
    if name == "patchSchedule":
        # Parts of a message fit one schedule and not another.
        body.pop("notification", None)
        body.pop("bulk", None)
    if name in {"patchPreferences", "patchDefaultPreferences"}:
        whole_preferences(body)
    return body


def whole_preferences(body):
    """Parts of what a user has not said yet need the rest of it."""
    quiet = body.get("quietHours")
    if quiet:
        night = {"enabled": True, "start": "22:00", "end": "07:00"}
        body["quietHours"] = {**quiet, **{name: value for name, value in night.items() if quiet.get(name) is None}}
    for channel in (body.get("channels") or {}).values():
        frequency = (channel or {}).get("frequency") or {}
        if frequency.get("burst"):
            usual = {"size": 5, "refillSeconds": 60}
            frequency["burst"] = {name: frequency["burst"].get(name) or value for name, value in usual.items()}


def consistent(value):
    if isinstance(value, list):
        for item in value:
            consistent(item)
    if not isinstance(value, dict):
        return
    for item in value.values():
        consistent(item)
    different(value, "actions", lambda action: action.get("id"))
    different(value, "fallback", lambda step: step.get("channel"))
    different(value, "recipients", reached_as)
    if value.get("startsAt") and value.get("endsAt"):
        value.pop("endsAt")
    if all(isinstance(value.get(name), (int, float)) for name in ("minCount", "maxCount")):
        value["minCount"], value["maxCount"] = sorted((value["minCount"], value["maxCount"]))
    options = value.get("options")
    if isinstance(options, dict) and (options.get("sendAtLocal") or options.get("offPeak")) and not value.get("channels"):
        value["channels"] = ["push"]


def reached_as(recipient):
    """What tells recipients apart."""
    phone = re.sub(r"[^+0-9]", "", recipient.get("phone") or "")
    token, hook = ((recipient.get(name) or {}).get(part) for name, part in [("pushToken", "token"), ("webhook", "url")])
    return (recipient.get("userId"), (recipient.get("email") or "").lower(), phone, token, (hook or "").lower())


def different(value, name, of):
    items = value.get(name)
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        value[name] = list({of(item): item for item in items}.values())


@schemathesis.check
def what_is_allowed_is_accepted(ctx, response, case):
    if is_about_meaning(response, case):
        return None
    return positive_data_acceptance(ctx, response, case)


def is_about_meaning(response, case):
    if "application/problem+json" not in response.headers.get("content-type", [""])[0]:
        return False
    problem = response.json()
    errors = problem.get("errors", [])
    return problem["code"] in ABOUT_MEANING or (bool(errors) and all(is_no_rule_of_form(error, case) for error in errors))


def is_no_rule_of_form(error, case):
    pointer, detail = error["pointer"], error["detail"]
    if pointer in GIVEN_OUT or detail.startswith(ABOUT_TIME):
        return True
    if pointer.startswith(BY_SOMETHING_ELSE.get(case.operation.definition.raw.get("operationId"), "none")):
        return True
    return detail.startswith(ABOUT_BYTES) and detail.endswith(" bytes") and is_beyond_ascii(pointer, case)


def is_beyond_ascii(pointer, case):
    """Whether the text at this place has fewer letters than bytes."""
    value = case.body
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            value = {**(case.path_parameters or {}), **(case.query or {})}.get(part)
    return isinstance(value, str) and not value.isascii()

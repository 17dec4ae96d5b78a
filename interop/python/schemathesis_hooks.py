"""What schemathesis does not know by itself: a media type, and which refusals no schema can foresee.

A request that the document allows has to be accepted, unless it is refused for what it means: a user who does not exist, a text in a
language of its own (templates, filters) that makes no sense, a cursor that nobody gave out, a time that has passed.
"""

import json

import schemathesis
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
# Fields whose good values are given out by the server, and details about times.
GIVEN_OUT = {"/cursor"}
ABOUT_TIME = {"must be in the future"}


@schemathesis.serializer("application/x-ndjson")
def lines(_, value):
    rows = value if isinstance(value, list) else [value]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@schemathesis.check
def what_is_allowed_is_accepted(ctx, response, case):
    if is_about_meaning(response):
        return None
    return positive_data_acceptance(ctx, response, case)


def is_about_meaning(response):
    if "application/problem+json" not in response.headers.get("content-type", [""])[0]:
        return False
    problem = response.json()
    errors = problem.get("errors", [])
    fine = [error["pointer"] in GIVEN_OUT or error["detail"] in ABOUT_TIME for error in errors]
    return problem["code"] in ABOUT_MEANING or (bool(errors) and all(fine))

"""boto3 against the sandbox's SES and SNS: sending, quotas, the suppression list, topics; and a wrong secret is found out."""

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from sandbox import check, control, judge

ONCE = Config(retries={"max_attempts": 1})


def client(service, secret="sandbox-secret"):
    return boto3.client(
        service,
        region_name="eu-west-1",
        aws_access_key_id="AKIDSANDBOX",
        aws_secret_access_key=secret,
        config=ONCE,
    )


def mail(to, reference):
    return {
        "FromEmailAddress": "Shop <news@shop.example>",
        "Destination": {"ToAddresses": [to]},
        "EmailTags": [{"Name": "reference", "Value": reference}],
    }


def failure(call, **what):
    try:
        call(**what)
        return None
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]


def main():
    ses = client("sesv2")
    simple = {"Simple": {"Subject": {"Data": "Grüße"}, "Body": {"Text": {"Data": "Hallo"}, "Html": {"Data": "<p>Hallo"}}}}
    raw = {"Raw": {"Data": b"From: news@shop.example\r\nTo: bob@a.example\r\nSubject: raw\r\n\r\nHello\r\n"}}
    sent = ses.send_email(**mail("ann@a.example", "r1"), Content=simple)
    check("a simple mail is taken", sent["MessageId"].startswith("0100"), True)
    check("a raw one", ses.send_email(**mail("bob@a.example", "r2"), Content=raw)["MessageId"].startswith("0100"), True)
    bulk = ses.send_bulk_email(
        FromEmailAddress="news@shop.example",
        DefaultContent={"Template": {"TemplateContent": {"Subject": "Hi {{n}}", "Text": "x"}, "TemplateData": "{\"n\":\"you\"}"}},
        BulkEmailEntries=[
            {"Destination": {"ToAddresses": ["cid@a.example"]}, "ReplacementTags": [{"Name": "reference", "Value": "r3"}]},
            {"Destination": {"ToAddresses": ["sandbox-MessageRejected@a.example"]}},
        ],
    )
    statuses = [entry["Status"] for entry in bulk["BulkEmailEntryResults"]]
    check("many at once, each with its result", statuses, ["SUCCESS", "MESSAGE_REJECTED"])
    account = ses.get_account()
    check("the account counts", account["SendQuota"]["SentLast24Hours"], 3.0)

    wrong = client("sesv2", "guess")
    check("a wrong secret", failure(wrong.get_account), ("SignatureDoesNotMatch", 403))
    throttled = mail("sandbox-TooManyRequestsException@a.example", "r4")
    check("throttled", failure(ses.send_email, **throttled, Content=simple), ("TooManyRequestsException", 429))

    ses.put_suppressed_destination(EmailAddress="dan@a.example", Reason="BOUNCE")
    found = ses.get_suppressed_destination(EmailAddress="dan@a.example")["SuppressedDestination"]
    check("the suppression list", (found["EmailAddress"], found["Reason"]), ("dan@a.example", "BOUNCE"))
    check("all of it", len(ses.list_suppressed_destinations()["SuppressedDestinationSummaries"]), 1)
    ses.delete_suppressed_destination(EmailAddress="dan@a.example")
    gone = failure(ses.get_suppressed_destination, EmailAddress="dan@a.example")
    check("and nobody on it", gone, ("NotFoundException", 404))
    control("PUT", "/ses/account", {"sendingEnabled": False})
    check("paused", failure(ses.send_email, **mail("ann@a.example", "r5"), Content=simple), ("SendingPausedException", 400))

    sns = client("sns")
    topic = sns.create_topic(Name="mail")["TopicArn"]
    check("a topic", topic, "arn:aws:sns:eu-west-1:123456789012:mail")
    asked = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint="http://127.0.0.1:9/")["SubscriptionArn"]
    check("a subscription waits", asked, "pending confirmation")
    check("a message", len(sns.publish(TopicArn=topic, Message="x")["MessageId"]), 36)
    check("no such topic", failure(sns.publish, TopicArn=topic + "x", Message="x"), ("NotFound", 404))

    recipients = {"r1": "ann@a.example", "r2": "bob@a.example", "r3": "cid@a.example"}
    judge([{"id": reference, "recipient": to} for reference, to in recipients.items()])


main()

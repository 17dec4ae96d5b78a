//! Examples of notifications, what became of them, and dead letters.

use super::Example;
use super::examples::{examples, map, text};
use fantail_wire::code::Code;
use fantail_wire::delivery::Delivery;
use fantail_wire::event::{Channel, Content, Priority};
use fantail_wire::list::ItemError;
use fantail_wire::notification::{
    CancelByKey, CancelResult, ChannelStatus, DeadLetter, DeadLetterChoice, DeadLetters, DeadLettersChanged,
    Explanation, NotificationAccepted, NotificationSend, NotificationStatus, Phase, RecipientSend,
    SendOptions, SendStatus, Step, Trace, TraceSpan,
};
use fantail_wire::receipt::{Receipt, ReceiptStatus, Receipts, ReceiptsTaken};
use serde_json::json;

const TIME: &str = "2026-11-15T08:30:00.000Z";
const EVENT: &str = "01KG9V7W0R8T6M4QZ2X5C7B9NA";

fn content(title: &str) -> Content {
    Content {
        title: text(title),
        body: Some(text("It is on its way to you")),
        data: Some(map(json!({"orderId": 42}))),
        image_url: None,
        actions: Vec::new(),
    }
}

examples! {
    NotificationSend => NotificationSend {
        notification_id: Some(text("order-42-shipped")),
        content: Some(content("Your order has left")),
        template_id: None,
        template_version: None,
        variables: Default::default(),
        recipients: vec![RecipientSend {
            user_id: Some(text("ann")),
            email: None,
            phone: None,
            webhook: None,
            push_token: None,
            content: Some(content("Ann, your order has left")),
            variables: Default::default(),
        }],
        category: Some(text("orders")),
        priority: Some(Priority::High),
        channels: vec![Channel::InApp, Channel::Push],
        options: SendOptions {
            ttl: Some(3_600),
            scheduled_at: None,
            send_at_local: None,
            off_peak: None,
            cancellation_key: Some(text("order-42")),
            collapse_key: Some(text("order-42")),
            sensitive: true,
        },
    };
    NotificationAccepted => NotificationAccepted {
        request_id: text("01KG9V7W0RREQ"),
        notification_id: text("order-42-shipped"),
        event_id: text(EVENT),
        status: SendStatus::Accepted,
        recipient_count: 1,
        estimated_delivery: text(TIME),
    };
    CancelByKey => CancelByKey { cancellation_key: text("order-42") };
    CancelResult => CancelResult { cancelled: 2, too_late: 1, deliveries_sent: 3, pending: false };
    NotificationStatus => NotificationStatus {
        event_id: text(EVENT),
        notification_id: Some(text("order-42-shipped")),
        status: Phase::Done,
        scheduled_at: Some(text(TIME)),
        created_at: text(TIME),
        category: text("orders"),
        cancelled: false,
        retracted: false,
        recipient_count: 1,
        channels: vec![ChannelStatus {
            channel: Channel::Push,
            counts: [(text("sent"), 2)].into(),
            unreached: 0,
            done: true,
        }],
        deliveries: vec![Delivery {
            user_id: text("ann"),
            address: Some(text("a***@example.com")),
            channel: Channel::Push,
            endpoint: 1,
            state: text("sent"),
            code: text("ok"),
            attempts: 1,
            begun_at: text(TIME),
            sent_at: Some(text(TIME)),
            delivered_at: Some(text(TIME)),
            opened_at: Some(text(TIME)),
            clicked_at: Some(text(TIME)),
        }],
        next_cursor: Some(text("AQMAAAAA")),
    };
    Explanation => Explanation {
        event_id: text(EVENT),
        notification_id: Some(text("order-42-shipped")),
        user_id: text("ann"),
        steps: vec![Step {
            step: text("accepted"),
            channel: Some(Channel::Push),
            at: Some(text(TIME)),
            text: text("accepted in the high lane, for push"),
            inputs: map(json!({"lane": "high"})),
        }],
        text: text("2026-11-15T08:30:00.000Z  accepted in the high lane, for push"),
    };
    Trace => Trace {
        trace_id: text("019c13b3f018d1a8925fe2e9587abaaa"),
        event_id: text(EVENT),
        notification_id: Some(text("order-42-shipped")),
        user_id: text("ann"),
        spans: vec![TraceSpan {
            span_id: text("00f067aa0ba902b7"),
            parent_span_id: Some(text("53995c3f42cd8ad8")),
            name: text("delivery"),
            channel: Some(Channel::Push),
            endpoint: Some(1),
            started_at: text(TIME),
            ended_at: text(TIME),
            state: Some(text("failed")),
            code: text("dead"),
        }],
    };
    Receipts => Receipts {
        receipts: vec![Receipt {
            reference: text("04000g1g04z9k3v8y2m6q1c5"),
            status: ReceiptStatus::Delivered,
            at: Some(text(TIME)),
            code: Some(text("250")),
        }],
    };
    ReceiptsTaken => ReceiptsTaken {
        changed: 1,
        unchanged: 1,
        errors: vec![ItemError {
            index: 2,
            code: Code::DeliveryNotFound,
            detail: text("no delivery has this reference"),
        }],
    };
    DeadLetters => DeadLetters {
        dead_letters: vec![DeadLetter {
            event_id: text(EVENT),
        notification_id: Some(text("order-42-shipped")),
            user_id: text("ann"),
            address: Some(text("a***@example.com")),
            channel: Channel::Push,
            endpoint: 1,
            priority: Priority::Normal,
            code: text("http_500"),
            attempts: 4,
            begun_at: text(TIME),
        }],
        next_cursor: Some(text("AQMAAAAA")),
    };
    DeadLetterChoice => DeadLetterChoice {
        event_id: None,
        notification_id: Some(text("order-42-shipped")),
        channel: Some(Channel::Push),
        code: Some(text("http_500")),
        users: Some(vec![text("ann")]),
        dry_run: true,
    };
    DeadLettersChanged => DeadLettersChanged { count: 1, dry_run: true };
}

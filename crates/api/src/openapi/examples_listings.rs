//! Examples of pages over everything of one kind.

use super::Example;
use super::examples::{CURSOR, EVENT, HASH, TIME, examples, text};
use fantail_wire::device::{ListedSuppression, SuppressionReason, Suppressions};
use fantail_wire::erasure::{Erasure, Erasures};
use fantail_wire::event::{Channel, Priority};
use fantail_wire::list::{Topic, Topics};
use fantail_wire::notification::{ChannelStatus, Phase};
use fantail_wire::sent::{SentNotification, SentNotifications};
use fantail_wire::user::{User, Users};

examples! {
    Users<'static> => Users { users: vec![User::example()], next_cursor: Some(text(CURSOR)) };
    Topics => Topics {
        topics: vec![Topic { topic: text("release-notes"), subscriber_count: 1_204 }],
        next_cursor: Some(text(CURSOR)),
    };
    Suppressions => Suppressions {
        suppressions: vec![ListedSuppression {
            address_hash: text(HASH),
            channel: Some(text("email")),
            address: Some(text("bob@example.com")),
            user_id: Some(text("bob")),
            reason: SuppressionReason::HardBounce,
            since: text(TIME),
        }],
        next_cursor: Some(text(CURSOR)),
    };
    Erasures => Erasures { erasures: vec![Erasure::example()], next_cursor: Some(text(CURSOR)) };
    SentNotifications => SentNotifications {
        notifications: vec![SentNotification {
            event_id: text(EVENT),
            notification_id: Some(text("order-42-shipped")),
            kind: text("notification"),
            category: text("orders"),
            priority: Priority::Normal,
            status: Some(Phase::Done),
            created_at: text(TIME),
            scheduled_at: Some(text(TIME)),
            cancelled: false,
            retracted: false,
            recipient_count: 1,
            channels: vec![ChannelStatus {
                channel: Channel::Push,
                counts: [(text("sent"), 2)].into(),
                unreached: 0,
                done: true,
            }],
        }],
        next_cursor: Some(text(CURSOR)),
    };
}

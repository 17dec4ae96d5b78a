//! What somebody told us later about a delivery: a provider's callback, a report of a mail server, a reader's program.
//!
//! Comes from: the pure readers of each provider (`smtp/report`, `ses/events`). Goes to: whoever writes receipts down, who
//! checks the reference and puts up with repeats and with any order.

use fantail_rules::ids::Millis;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// As it came: whoever takes it checks its seal.
    pub reference: String,
    pub outcome: Outcome,
    /// The provider's own word, whatever it is.
    pub code: String,
    /// When it happened there, if that was said.
    pub at: Option<Millis>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It arrived at the recipient's side.
    Delivered,
    /// Somebody on the way still tries.
    Delayed,
    /// It came back.
    Bounced {
        /// The address does not exist: nothing more goes there.
        hard: bool,
    },
    /// The recipient called it unwanted: nothing more goes there.
    Complained,
    /// It will not arrive, and that says nothing about the address.
    Failed,
    Opened,
    Clicked,
}

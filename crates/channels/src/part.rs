//! Sending a part of a shipment: whoever has several ways splits what it is given, and answers are told by their places in the
//! whole.

use fantail_ports::channel::{Channel, Report, Shipment};

/// Sends the messages at these places, in this order.
pub async fn send(channel: &dyn Channel, shipment: &Shipment, places: &[usize], report: &Report<'_>) {
    if places.is_empty() {
        return;
    }
    let is_whole = places.len() == shipment.messages.len() && places.is_sorted();
    if is_whole {
        return channel.send(shipment, report).await;
    }
    let messages = places.iter().map(|place| shipment.messages[*place].clone()).collect();
    let part = Shipment { messages, ..shipment.clone() };
    let told = |at: usize, answer| {
        if let Some(place) = places.get(at) {
            report(*place, answer);
        }
    };
    channel.send(&part, &told).await;
}

//! Receipts: what became of deliveries later.
//!
//! Comes from: `pipeline`, from providers' callbacks and those who speak for them. Goes to: `Node::receive`, which knows
//! references that are not ours.

use crate::call::Call;
use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::batch;
use fantail_node::ask::{Outcome, ReceiptAsk};
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{RECEIPT_CODE_BYTES_MAX, RECEIPTS_MAX};
use fantail_wire::receipt::{Receipt, ReceiptStatus, Receipts, ReceiptsTaken};

pub async fn take(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let asks = asks_of(call.json()?)?;
    let results = call.node.receive(tenant, &asks).await;
    if let Some(problem) = batch::refused_as_one(&results) {
        return Err(problem);
    }
    let mut answer = ReceiptsTaken { changed: 0, unchanged: 0, errors: Vec::new() };
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Ok(true) => answer.changed += 1,
            Ok(false) => answer.unchanged += 1,
            Err(refusal) => answer.errors.push(batch::item_error(index, refusal)),
        }
    }
    Ok(Reply::json(200, &answer))
}

fn asks_of(request: Receipts) -> Result<Vec<ReceiptAsk>, Problem> {
    let root = Pointer::ROOT;
    let list = root.key("receipts");
    let mut faults = Faults::default();
    if request.receipts.is_empty() || request.receipts.len() > RECEIPTS_MAX {
        faults.add(list, format!("must have 1 to {RECEIPTS_MAX} receipts"));
        faults.into_result()?;
        return Ok(Vec::new());
    }
    let mut asks = Vec::with_capacity(request.receipts.len());
    for (index, receipt) in request.receipts.into_iter().enumerate() {
        asks.push(ask_of(receipt, list.index(index), &mut faults));
    }
    faults.into_result()?;
    Ok(asks)
}

fn ask_of(receipt: Receipt, place: Pointer<'_>, faults: &mut Faults) -> ReceiptAsk {
    let at = receipt.at.as_deref().map(time::parse);
    if at == Some(None) {
        faults.add(place.key("at"), "is not a time as RFC 3339 writes it");
    }
    let code = receipt.code.unwrap_or_default();
    if code.len() > RECEIPT_CODE_BYTES_MAX || !code.bytes().all(|byte| byte.is_ascii_graphic()) {
        let most = format!("must be at most {RECEIPT_CODE_BYTES_MAX} visible ASCII characters");
        faults.add(place.key("code"), most);
    }
    ReceiptAsk {
        reference: receipt.reference,
        channel: None,
        outcome: outcome_of(receipt.status),
        at: at.flatten(),
        code,
    }
}

fn outcome_of(status: ReceiptStatus) -> Outcome {
    match status {
        ReceiptStatus::Delivered => Outcome::Delivered,
        ReceiptStatus::Opened => Outcome::Opened,
        ReceiptStatus::Clicked => Outcome::Clicked,
        ReceiptStatus::Complained => Outcome::Complained,
        ReceiptStatus::Failed => Outcome::Failed,
        ReceiptStatus::Bounced => Outcome::Bounced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn receipts_are_checked_before_anything_is_taken() {
        let one = |more: Value| {
            let mut one = json!({"reference": "abc", "status": "delivered"});
            one.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            json!({"receipts": [{"reference": "x", "status": "opened"}, one]})
        };
        for (body, pointer) in [
            (one(json!({})), None),
            (one(json!({"at": "2026-11-15T08:30:00Z", "code": "250-ok"})), None),
            (one(json!({"at": "yesterday"})), Some("/receipts/1/at")),
            (one(json!({"code": "a b"})), Some("/receipts/1/code")),
            (one(json!({"code": "c".repeat(65)})), Some("/receipts/1/code")),
            (json!({"receipts": []}), Some("/receipts")),
        ] {
            let asked = asks_of(serde_json::from_value(body.clone()).expect("the shape fits"));
            let found = asked.err().map(|problem| problem.errors[0].pointer.clone());
            assert_eq!(found.as_deref(), pointer, "{body}");
        }
    }
}

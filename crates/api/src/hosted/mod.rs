//! The pages that recipients see: what they want to be told, and the way out. No login: a link says for whom they are.
//!
//! Comes from: a link in a mail or a message, followed by its reader, or by the reader's mail program. Decides: whether the
//! link is good, and what its holder asks for. Goes to: `Node::prefer_by_link`. What must never happen: a GET that changes
//! anything, since scanners fetch every link of a mail; a page that loads, runs or frames something of somebody else.

mod form;
mod link_saves;
mod page;
mod words;

use crate::bodies::BodyHolder;
use crate::body::UnreadBody;
use crate::problem::Problem;
use crate::reply::Reply;
use axum::http::{HeaderMap, HeaderValue, header};
use fantail_node::Node;
use fantail_node::ask::Refusal;
use fantail_node::links::{Followed, Purpose};
use fantail_node::respect::Prefer;
use fantail_rules::preference::Preferences;
use form::{BYTES_MAX, Form};
pub use link_saves::LinkSaves;
use link_saves::TooManySaves;
use page::{Page, Saying};
use std::sync::Arc;
use words::Words;

/// A request for a page.
pub struct Visit {
    pub node: Node,
    pub token: String,
    pub headers: HeaderMap,
    pub saves: Arc<LinkSaves>,
}

/// Why a change was not made.
enum NotSaved {
    TooMany(TooManySaves),
    Refused(Refusal),
}

pub async fn show(visit: Visit) -> Result<Reply, Problem> {
    let words = words_of(&visit, None);
    let Some(followed) = visit.node.follow_link(&visit.token)? else { return Ok(gone(words)) };
    Ok(reply(
        200,
        &Page { words: words_of(&visit, Some(&followed)), followed: &followed, saying: Saying::Nothing },
    ))
}

/// Reads the body only of a visit by a link that is good. The link is followed again behind it: a body takes its time.
pub async fn change(visit: Visit, unread: UnreadBody) -> Result<Reply, Problem> {
    let words = words_of(&visit, None);
    if visit.node.follow_link(&visit.token)?.is_none() {
        return Ok(gone(words));
    }
    let body = unread.read(BodyHolder::NoKey, BYTES_MAX).await?;
    let form = Form::read(&visit.headers, &body.bytes);
    let Some(followed) = visit.node.follow_link(&visit.token)? else { return Ok(gone(words)) };
    let words = words_of(&visit, Some(&followed));
    let Some(form) = form else {
        return Ok(reply(400, &Page { words, followed: &followed, saying: Saying::NotUnderstood }));
    };
    // A mail program knows these words alone, whatever the link is for.
    if form.one("List-Unsubscribe") == Some("One-Click") {
        return leave(&visit, followed, "one-click").await;
    }
    match (followed.link.purpose, form.one("form")) {
        (Purpose::Unsubscribe, Some("leave")) => leave(&visit, followed, "unsubscribe page").await,
        (Purpose::Preferences, Some("preferences")) => save(&visit, followed, &form).await,
        (Purpose::Unsubscribe | Purpose::Preferences, _) => {
            Ok(reply(400, &Page { words, followed: &followed, saying: Saying::NotUnderstood }))
        }
    }
}

/// Leaves what the link is about, whatever else changes meanwhile: each attempt that fails is a change that was made.
async fn leave(visit: &Visit, mut followed: Followed, source: &str) -> Result<Reply, Problem> {
    loop {
        let words = words_of(visit, Some(&followed));
        let preferences = followed.link.leave(&followed.row.preferences);
        match prefer(visit, &followed, source, preferences).await {
            Ok(()) => return Ok(reply(200, &Page { words, followed: &followed, saying: Saying::Left })),
            Err(NotSaved::Refused(Refusal::RespectConflict { .. })) => {}
            Err(NotSaved::Refused(Refusal::UnknownUser { .. })) => return Ok(gone(words)),
            Err(NotSaved::Refused(refusal)) => return Err(refusal.into()),
            Err(NotSaved::TooMany(refused)) => return Ok(too_often(words, &followed, refused)),
        }
        followed = match visit.node.follow_link(&visit.token)? {
            Some(followed) => followed,
            None => return Ok(gone(words)),
        };
    }
}

/// Saves what a page was filled in with, unless something else was said since it was shown.
async fn save(visit: &Visit, mut followed: Followed, form: &Form) -> Result<Reply, Problem> {
    let words = words_of(visit, Some(&followed));
    let answer = |status, followed: &Followed, saying| reply(status, &Page { words, followed, saying });
    if form.one("version") != Some(followed.row.revision.to_string().as_str()) {
        return Ok(answer(409, &followed, Saying::ChangedMeanwhile));
    }
    let Some(wanted) = form.wanted(&followed) else {
        return Ok(answer(400, &followed, Saying::NotUnderstood));
    };
    match prefer(visit, &followed, "preference page", wanted).await {
        Ok(()) => {}
        Err(NotSaved::Refused(Refusal::RespectConflict { .. })) => {
            return Ok(answer(409, &followed, Saying::ChangedMeanwhile));
        }
        Err(NotSaved::Refused(Refusal::UnknownUser { .. })) => return Ok(gone(words)),
        Err(NotSaved::Refused(refusal)) => return Err(refusal.into()),
        Err(NotSaved::TooMany(refused)) => return Ok(too_often(words, &followed, refused)),
    }
    followed = match visit.node.follow_link(&visit.token)? {
        Some(followed) => followed,
        None => return Ok(gone(words)),
    };
    Ok(answer(200, &followed, Saying::Saved))
}

/// Only what changes something counts towards what a link may save.
async fn prefer(
    visit: &Visit,
    followed: &Followed,
    source: &str,
    preferences: Preferences,
) -> Result<(), NotSaved> {
    let save = visit.saves.count(&visit.token, visit.node.wall()).map_err(NotSaved::TooMany)?;
    let (instead_of, source) = (followed.row.revision, source.to_owned());
    let saved = visit.node.prefer_by_link(followed, Prefer { instead_of, source, preferences }).await;
    if saved.as_ref().map_or(true, |revision| *revision == instead_of) {
        visit.saves.give_back(save);
    }
    saved.map(|_| ()).map_err(NotSaved::Refused)
}

fn too_often(words: &'static Words, followed: &Followed, refused: TooManySaves) -> Reply {
    let reply = reply(429, &Page { words, followed, saying: Saying::TooOften });
    reply.with_header(header::RETRY_AFTER, HeaderValue::from(refused.retry_after_s))
}

/// What the reader's browser asks for counts before the profile: whoever reads a page may have another one.
fn words_of(visit: &Visit, followed: Option<&Followed>) -> &'static Words {
    let accepted = visit.headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    words::choose(accepted, followed.map_or("", |followed| followed.locale.as_str()))
}

fn gone(words: &'static Words) -> Reply {
    finished(404, page::gone(words))
}

fn reply(status: u16, page: &Page<'_>) -> Reply {
    finished(status, page.html())
}

fn finished(status: u16, html: String) -> Reply {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, page::policy()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
    ];
    let reply = Reply::bytes(status, "text/html; charset=utf-8", html);
    headers.into_iter().fold(reply, |reply, (name, value)| reply.with_header(name, value))
}

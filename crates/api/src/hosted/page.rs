//! The pages as HTML: one column, labels on everything, nothing to load and nothing to run.

use super::form::{CHANNELS, shown_categories};
use super::words::Words;
use aws_lc_rs::digest::{SHA256, digest};
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_node::links::{Followed, Purpose};
use fantail_rules::preference::{Preferences, Quiet, Switch};
use fantail_rules::quiet::Days;
use fantail_rules::wall::show_minute;
use fantail_rules::zone::ZoneNo;
use std::fmt::Write;
use std::sync::LazyLock;

/// What happened to the visitor's wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saying {
    Nothing,
    Saved,
    Left,
    ChangedMeanwhile,
    NotUnderstood,
    /// The link has changed too much in this hour.
    TooOften,
}

pub struct Page<'a> {
    pub words: &'static Words,
    pub followed: &'a Followed,
    pub saying: Saying,
}

/// Colours keep a contrast of 7 : 1 in both schemes; whatever has the focus has a ring.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1f;--paper:#fff;--line:#6b6b76;--strong:#0b3d91;--on-strong:#fff;--good:#0f4d1f;--bad:#8a1010}\
@media(prefers-color-scheme:dark){:root{--ink:#f2f2f4;--paper:#17171b;--line:#a0a0ac;--strong:#9dc1ff;--on-strong:#10131a;--good:#9be3ad;--bad:#ffb4ab}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\
main{max-width:36rem;margin:0 auto;padding:2rem 1rem 4rem}\
h1{font-size:1.6rem;line-height:1.2;margin:0 0 1rem}\
fieldset{border:1px solid var(--line);border-radius:.5rem;margin:0 0 1.25rem;padding:.75rem 1rem 1rem}\
legend{font-weight:600;padding:0 .4rem}\
.choice{display:flex;gap:.75rem;align-items:center;min-height:2.75rem}\
.choice input{width:1.4rem;height:1.4rem;flex:none;margin:0;accent-color:var(--strong)}\
.field{display:block;margin:.75rem 0 0}\
.field input,.field select{display:block;width:100%;margin-top:.25rem;padding:.55rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--line);border-radius:.35rem}\
.days{border:0;padding:0;margin:.75rem 0 0}.days legend{padding:0;font-weight:400}\
button{font:inherit;font-weight:600;padding:.75rem 1.5rem;min-height:2.75rem;border:0;border-radius:.5rem;background:var(--strong);color:var(--on-strong);cursor:pointer}\
:focus-visible{outline:3px solid var(--strong);outline-offset:2px}\
.said{border-left:.35rem solid;padding:.6rem .9rem;margin:0 0 1.25rem}\
.good{color:var(--good)}.bad{color:var(--bad)}";

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).expect("the policy is plain ASCII")
});

/// Nothing but the style above, and forms to ourselves.
pub fn policy() -> HeaderValue {
    POLICY.clone()
}

pub fn gone(words: &Words) -> String {
    document(words, words.gone_title, &format!("<p>{}</p>", escaped(words.gone)))
}

impl Page<'_> {
    pub fn html(&self) -> String {
        let words = self.words;
        let mut body = self.said();
        match (self.saying, self.followed.link.purpose) {
            (Saying::Left, _) => body.push_str(&format!("<p>{}</p>", escaped(words.urgent))),
            (_, Purpose::Unsubscribe) => body.push_str(&self.way_out()),
            (_, Purpose::Preferences) => body.push_str(&self.form()),
        }
        let title = match self.followed.link.purpose {
            Purpose::Preferences => words.preferences_title,
            Purpose::Unsubscribe => words.leave_title,
        };
        document(words, title, &body)
    }

    fn said(&self) -> String {
        let words = self.words;
        let (role, class, text) = match self.saying {
            Saying::Nothing => return String::new(),
            Saying::Saved => ("status", "good", words.saved),
            Saying::Left => ("status", "good", words.left),
            Saying::ChangedMeanwhile => ("alert", "bad", words.changed_meanwhile),
            Saying::NotUnderstood => ("alert", "bad", words.not_understood),
            Saying::TooOften => ("alert", "bad", words.too_often),
        };
        format!("<p class=\"said {class}\" role=\"{role}\">{}</p>", escaped(text))
    }

    fn way_out(&self) -> String {
        let (words, link) = (self.words, &self.followed.link);
        let channel = link.channel.map(|channel| words.channel(channel));
        let about: Vec<String> = link.category.as_deref().into_iter().chain(channel).map(escaped).collect();
        let promise = if about.is_empty() {
            escaped(words.leave_everything)
        } else {
            format!("{} <strong>{}</strong>", escaped(words.leave_some), about.join(" · "))
        };
        format!(
            "<p>{promise}</p><form method=\"post\"><input type=\"hidden\" name=\"form\" value=\"leave\">\
             <button type=\"submit\">{}</button></form><p>{}</p>",
            escaped(words.leave),
            escaped(words.urgent)
        )
    }

    fn form(&self) -> String {
        let (words, row) = (self.words, &self.followed.row);
        let Preferences { everything, quiet, channels, .. } = &row.preferences;
        let categories = shown_categories(self.followed);
        let mut html = format!(
            "<form method=\"post\"><input type=\"hidden\" name=\"form\" value=\"preferences\">\
             <input type=\"hidden\" name=\"version\" value=\"{}\">",
            row.revision
        );
        html.push_str(&choice("everything", "on", words.everything, *everything != Switch::Off));
        html.push_str(&group(words.channels));
        for channel in CHANNELS {
            let is_on = channels.of(channel) != Switch::Off;
            html.push_str(&choice("channel", channel.name(), words.channel(channel), is_on));
        }
        html.push_str("</fieldset>");
        if !categories.is_empty() {
            html.push_str(&group(words.categories));
            for (name, category) in &categories {
                html.push_str(&choice("category", name, name, category.switch != Switch::Off));
            }
            html.push_str("</fieldset>");
        }
        html.push_str(&self.quiet(quiet.as_ref()));
        let (save, urgent) = (escaped(words.save), escaped(words.urgent));
        write!(html, "<p>{urgent}</p><button type=\"submit\">{save}</button></form>")
            .expect("text takes text");
        html
    }

    fn quiet(&self, quiet: Option<&Quiet>) -> String {
        let words = self.words;
        let times = quiet.map(|quiet| quiet.window.times());
        let minute = |minute: Option<u16>, usual| minute.map_or_else(|| String::from(usual), show_minute);
        let start = minute(times.map(|times| times.start_minute), "22:00");
        let end = minute(times.map(|times| times.end_minute), "07:00");
        let days = quiet.map_or(Days::ALL, |quiet| quiet.window.days());
        let mut html = group(words.quiet);
        html.push_str(&choice("quiet", "on", words.quiet_on, quiet.is_some_and(|quiet| quiet.is_enabled)));
        for (name, label, value) in [("start", words.start, start), ("end", words.end, end)] {
            let label = escaped(label);
            html.push_str(&format!(
                "<label class=\"field\">{label}<input type=\"time\" name=\"{name}\" value=\"{value}\" required></label>"
            ));
        }
        html.push_str(&format!("<fieldset class=\"days\"><legend>{}</legend>", escaped(words.days)));
        for (no, name) in (0u8..).zip(words.day_names) {
            html.push_str(&choice("day", &no.to_string(), name, days.contains(no)));
        }
        html.push_str("</fieldset>");
        html.push_str(&zones(words, quiet.map_or(ZoneNo::NONE, |quiet| quiet.zone)));
        html.push_str("</fieldset>");
        html
    }
}

fn zones(words: &Words, chosen: ZoneNo) -> String {
    let mut names: Vec<&str> = ZoneNo::all().filter_map(ZoneNo::name).collect();
    names.sort_unstable();
    let mut html = format!(
        "<label class=\"field\">{}<select name=\"zone\"><option value=\"\">{}</option>",
        escaped(words.zone),
        escaped(words.zone_of_profile)
    );
    for name in names {
        let selected = if chosen.name() == Some(name) { " selected" } else { "" };
        html.push_str(&format!("<option{selected}>{}</option>", escaped(name)));
    }
    html.push_str("</select></label>");
    html
}

fn group(legend: &str) -> String {
    format!("<fieldset><legend>{}</legend>", escaped(legend))
}

fn choice(name: &str, value: &str, label: &str, is_on: bool) -> String {
    let (value, label) = (escaped(value), escaped(label));
    let checked = if is_on { " checked" } else { "" };
    format!(
        "<label class=\"choice\"><input type=\"checkbox\" name=\"{name}\" value=\"{value}\"{checked}>{label}</label>"
    )
}

fn document(words: &Words, title: &str, body: &str) -> String {
    let (code, title) = (words.code, escaped(title));
    format!(
        "<!doctype html><html lang=\"{code}\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{body}</main></body></html>"
    )
}

/// Text inside an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_the_page() {
        let html = choice("category", "\"><script>alert(1)</script>", "a & 'b'", true);
        assert!(!html.contains("<script") && html.contains("a &amp; &#39;b&#39;"), "{html}");
    }
}

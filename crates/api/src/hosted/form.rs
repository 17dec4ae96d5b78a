//! Forms as browsers and mail programs send them, in both encodings, and what a filled-in page asks for.

use crate::body::media_type;
use axum::http::{HeaderMap, header};
use fantail_node::links::Followed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::limits::CATEGORY_CHOICES_MAX;
use fantail_rules::preference::{CategoryChoice, Preferences, Quiet, Switch};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::wall::parse_minute;
use fantail_rules::zone::ZoneNo;
use percent_encoding::percent_decode;
use std::collections::BTreeMap;

/// A page with all its categories is a twentieth of it.
pub const BYTES_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 512;

/// The channels that a page has a switch for.
pub const CHANNELS: [ChannelKind; 5] =
    [ChannelKind::InApp, ChannelKind::Push, ChannelKind::Email, ChannelKind::Sms, ChannelKind::Webhook];

/// Names and values, in the order of the form.
#[derive(Debug)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// `None` for what is not a form.
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let fields = match media_type(headers)?.as_str() {
            "application/x-www-form-urlencoded" => url_encoded(body),
            "multipart/form-data" => parts(body, &boundary(headers)?),
            _ => None,
        }?;
        (fields.len() <= FIELDS_MAX).then_some(Self(fields))
    }

    /// The value of a field that must not come twice.
    pub fn one(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(known, given)| known == name && given == value)
    }

    /// What a filled-in page asks for. What it has no field for stays; `None` if it was not filled in as it can be.
    pub fn wanted(&self, followed: &Followed) -> Option<Preferences> {
        let before = &followed.row.preferences;
        let mut wanted = before.clone();
        wanted.everything = switched(before.everything, self.has("everything", "on"));
        for channel in CHANNELS {
            let is_on = self.has("channel", channel.name());
            wanted.channels = wanted.channels.with(channel, switched(before.channels.of(channel), is_on));
        }
        for (name, mut choice) in shown_categories(followed) {
            choice.switch = switched(choice.switch, self.has("category", &name));
            // What nobody has said anything about is not noted.
            if choice != CategoryChoice::default() || before.categories.contains_key(&name) {
                wanted.categories.insert(name, choice);
            }
        }
        wanted.quiet = self.quiet(before.quiet.as_ref())?;
        Some(wanted)
    }

    /// `None` inside: there are none, and none were asked for.
    fn quiet(&self, before: Option<&Quiet>) -> Option<Option<Quiet>> {
        let is_enabled = self.has("quiet", "on");
        if before.is_none() && !is_enabled {
            return Some(None);
        }
        let minute = |name: &str| self.one(name).and_then(parse_minute);
        let times = Times { start_minute: minute("start")?, end_minute: minute("end")? };
        let bits =
            (0u8..7).filter(|day| self.has("day", &day.to_string())).fold(0, |bits, day| bits | 1 << day);
        // No day at all is every day, as where nobody says anything about days.
        let days = Days::from_bits(bits).unwrap_or(Days::ALL);
        let zone = match self.one("zone")? {
            "" => ZoneNo::NONE,
            name => ZoneNo::find(name)?,
        };
        Some(Some(Quiet { is_enabled, window: Window::new(times, days)?, zone }))
    }
}

/// The categories that a page has switches for: those that the user said something about, that of the link, and those of
/// the tenant, as many as a user may speak of.
pub fn shown_categories(followed: &Followed) -> BTreeMap<String, CategoryChoice> {
    let mut shown = followed.row.preferences.categories.clone();
    for name in followed.link.category.iter().chain(&followed.categories) {
        if shown.len() < CATEGORY_CHOICES_MAX {
            shown.entry(name.clone()).or_default();
        }
    }
    shown
}

/// What was not touched stays unsaid.
fn switched(before: Switch, is_on: bool) -> Switch {
    if (before != Switch::Off) == is_on { before } else { Switch::of(Some(is_on)) }
}

fn url_encoded(body: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(body).ok()?;
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode(spaced.as_bytes()).decode_utf8().ok().map(|text| text.into_owned())
    };
    let pairs = text.trim_end().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        })
        .collect()
}

fn boundary(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let mut parameters = value.split(';').skip(1).filter_map(|one| one.trim().split_once('='));
    let (_, boundary) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim_matches('"');
    (1..=70).contains(&boundary.len()).then(|| boundary.to_owned())
}

/// The fields of a multipart form (RFC 7578). Parts are texts here; one that is not makes the whole form none.
fn parts(body: &[u8], boundary: &str) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(body).ok()?;
    let delimiter = format!("\r\n--{boundary}");
    let framed = format!("\r\n{text}");
    let mut pieces = framed.split(delimiter.as_str());
    // What stands before the first delimiter is no part.
    pieces.next()?;
    let mut fields = Vec::new();
    for piece in pieces {
        if piece.starts_with("--") {
            return Some(fields);
        }
        let (head, value) =
            piece.trim_start_matches([' ', '\t']).strip_prefix("\r\n")?.split_once("\r\n\r\n")?;
        fields.push((name_in(head)?, value.to_owned()));
    }
    // It ended before its last delimiter.
    None
}

fn name_in(head: &str) -> Option<String> {
    let is_disposition = |line: &&str| {
        line.split(':').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("content-disposition"))
    };
    let line = head.split("\r\n").find(is_disposition)?;
    let mut parameters = line.split(';').skip(1).filter_map(|one| one.trim().split_once('='));
    let (_, name) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("name"))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use fantail_fuzz::{Corpus, fuzz};

    fn read(kind: &'static str, body: &str) -> Option<Vec<(String, String)>> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Form::read(&headers, body.as_bytes()).map(|form| form.0)
    }

    const PLAIN: &str = "application/x-www-form-urlencoded";
    const PARTS: &str = "multipart/form-data; boundary=\"x-1\"";

    // proves: EML-03
    #[test]
    fn both_encodings_say_the_same() {
        let one_click = Some(vec![("List-Unsubscribe".to_owned(), "One-Click".to_owned())]);
        assert_eq!(read(PLAIN, "List-Unsubscribe=One-Click"), one_click);
        assert_eq!(
            read("application/x-www-form-urlencoded; charset=utf-8", "List-Unsubscribe=One-Click\r\n"),
            one_click
        );
        let part = "Content-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click";
        assert_eq!(read(PARTS, &format!("--x-1\r\n{part}\r\n--x-1--\r\n")), one_click);
        assert_eq!(read(PARTS, &format!("before\r\n--x-1 \r\n{part}\r\n--x-1--after")), one_click);
        let typed = "content-disposition: form-data; name=List-Unsubscribe\r\nContent-Type: text/plain\r\n\r\nOne-Click";
        assert_eq!(read(PARTS, &format!("--x-1\r\n{typed}\r\n--x-1--")), one_click);
        assert_eq!(
            read(PLAIN, "a=1+2%2B3&b=%C3%A9&c"),
            Some([("a", "1 2+3"), ("b", "é"), ("c", "")].map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec())
        );
        for (kind, bad) in [
            ("text/plain", "List-Unsubscribe=One-Click"),
            (PLAIN, "a=%FF"),
            ("multipart/form-data", "--x-1--"),
            (PARTS, "--x-1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nnever ends"),
            (PARTS, "--x-1\r\nno head\r\n--x-1--"),
        ] {
            assert_eq!(read(kind, bad), None, "{kind} {bad}");
        }
        let many = "a=1&".repeat(FIELDS_MAX + 1);
        assert_eq!(read(PLAIN, &many), None);
    }

    #[test]
    fn a_field_that_comes_twice_is_not_one() {
        let form = |pairs: &[(&str, &str)]| {
            Form(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(form(&[("a", "1"), ("b", "2")]).one("b"), Some("2"));
        assert_eq!(form(&[("a", "1"), ("a", "2")]).one("a"), None);
        assert_eq!(form(&[]).one("a"), None);
    }

    #[test]
    fn switches_that_were_not_touched_stay_unsaid() {
        use Switch::{NotSaid, Off, On};
        let cases = [
            (NotSaid, true, NotSaid),
            (NotSaid, false, Off),
            (On, true, On),
            (On, false, Off),
            (Off, false, Off),
            (Off, true, On),
        ];
        for (before, is_on, after) in cases {
            assert_eq!(switched(before, is_on), after);
        }
    }

    #[test]
    fn quiet_hours_are_filled_in_whole_or_not_at_all() {
        let quiet = |body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
            Form::read(&headers, body.as_bytes()).expect("a form").quiet(None)
        };
        assert_eq!(quiet("start=22:00"), Some(None));
        let night = quiet("quiet=on&start=22%3A00&end=07%3A00&zone=Europe%2FVienna&day=0&day=6");
        let night = night.flatten().expect("filled in");
        assert_eq!((night.is_enabled, night.window.days().bits()), (true, 0b100_0001));
        assert_eq!(night.zone, ZoneNo::find("Europe/Vienna").expect("a zone"));
        let every_day = quiet("quiet=on&start=22:00&end=07:00&zone=").flatten().expect("filled in");
        assert_eq!((every_day.window.days(), every_day.zone), (Days::ALL, ZoneNo::NONE));
        for bad in [
            "quiet=on&start=25:00&end=07:00&zone=",
            "quiet=on&start=22:00&end=07:00&zone=Mars",
            "quiet=on&start=22:00&zone=",
        ] {
            assert_eq!(quiet(bad), None, "{bad}");
        }
    }

    const WORDS: &[&str] = &[
        "&",
        "=",
        "+",
        "%",
        "%C3%A9",
        "%FF",
        "\r\n",
        "\r\n\r\n",
        "--b",
        "\r\n--b\r\n",
        "\r\n--b--",
        "name=\"",
        "\"",
        ";",
        "Content-Disposition: form-data; name=\"start\"",
        "quiet=on&",
        "start=22:00&",
        "end=07:00&",
        "zone=Europe/Vienna",
        "day=6&",
        "List-Unsubscribe=One-Click",
        "99:99",
        "\0",
    ];

    /// The form that the holder of a link posts.
    #[test]
    fn forms_are_read_or_refused() {
        let plain = [
            "List-Unsubscribe=One-Click",
            "form=preferences&version=1&everything=on&channel=email&category=likes",
            "quiet=on&start=22%3A00&end=07%3A00&zone=Europe%2FVienna&day=0&day=6",
        ];
        let part = |name: &str, value: &str| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let parts = format!("{}{}--b--\r\n", part("quiet", "on"), part("start", "22:00"));
        for (kind, inputs) in [
            (PLAIN, plain.iter().map(|form| form.as_bytes().to_vec()).collect()),
            ("multipart/form-data; boundary=b", vec![parts.into_bytes()]),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            let corpus = Corpus::new(inputs, WORDS);
            for input in &corpus.inputs {
                assert!(Form::read(&headers, input).is_some(), "the corpus has good forms");
            }
            fuzz("form of a hosted page", &corpus, |input| {
                let Some(form) = Form::read(&headers, input) else { return };
                assert!(form.0.len() <= FIELDS_MAX);
                if let Some(Some(quiet)) = form.quiet(None) {
                    assert!(quiet.is_enabled, "it was filled in");
                }
                for (name, value) in &form.0 {
                    let is_alone = form.0.iter().filter(|(other, _)| other == name).count() == 1;
                    assert_eq!(form.one(name), is_alone.then_some(value.as_str()));
                }
            });
        }
    }

    /// The server decides by the media type before it reads the body.
    #[test]
    fn media_types_are_read_or_refused() {
        let good =
            ["multipart/form-data; boundary=\"x-1\"", "application/x-www-form-urlencoded; charset=utf-8"];
        let corpus = Corpus::new(good.iter().map(|kind| kind.as_bytes().to_vec()).collect(), WORDS);
        fuzz("media type of a form", &corpus, |input| {
            let Ok(value) = HeaderValue::from_bytes(input) else { return };
            let headers: HeaderMap = [(header::CONTENT_TYPE, value)].into_iter().collect();
            let languages = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            assert!(["en", "de", "fr", "es"].contains(&super::super::words::choose(languages, "").code));
            if let Some(boundary) = boundary(&headers) {
                assert!((1..=70).contains(&boundary.len()));
            }
            Form::read(&headers, b"--x-1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x-1--");
        });
    }
}

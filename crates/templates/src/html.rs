//! A reader of HTML that knows one thing: where it is. With it, templates are refused when a variable stands where
//! escaping cannot protect the reader (a tag, an attribute without quotes, a script or a style), and rendered emails when a link
//! would run something.
//!
//! It reads what tenants write for mail clients, not all of HTML: when in doubt it is inside a tag, which refuses more.

use crate::links;

/// Attributes that name a place to load or to go to.
const PLACES: &[&str] = &[
    "action",
    "background",
    "cite",
    "data",
    "formaction",
    "href",
    "longdesc",
    "poster",
    "src",
    "srcset",
    "xlink:href",
];
/// Elements whose content is not markup, so that entities do not protect it.
const RAW: &[&str] =
    &["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"];
/// The longest attribute value that is looked at; only its beginning decides.
const VALUE_BYTES_MAX: usize = 256;

/// What to read: text of the document, or the place of a variable.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    Text(&'a str),
    Variable { line: usize },
}

/// Where variables stand that escaping cannot make safe, with their line.
pub fn variable_faults<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> Vec<(usize, String)> {
    let mut reader = Reader::default();
    let mut faults = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => text.chars().for_each(|letter| reader.read(letter)),
            Part::Variable { line } => {
                faults.extend(reader.variable_fault().map(|fault| (line, fault)));
                reader.see_variable();
            }
        }
    }
    faults
}

/// The first link or image that would run something as it is written, whatever the variables are.
pub fn written_link_fault<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> Option<String> {
    let mut reader = Reader::default();
    for part in parts {
        match part {
            Part::Text(text) => text.chars().for_each(|letter| reader.read(letter)),
            Part::Variable { .. } => reader.see_variable(),
        }
    }
    reader.fault
}

/// The first link or image that would run something.
pub fn link_fault(document: &str) -> Option<String> {
    let mut reader = Reader::default();
    for letter in document.chars() {
        reader.read(letter);
        if let Some(fault) = reader.fault.take() {
            return Some(fault);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Text,
    /// After `<`.
    Open,
    TagName,
    CloseTag,
    /// Between attributes.
    Tag,
    AttributeName,
    /// After the space behind a name.
    AfterName,
    /// After `=`.
    BeforeValue,
    Value(Quote),
    Raw,
    Comment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quote {
    Double,
    Single,
    None,
}

#[derive(Default)]
struct Reader {
    state: State,
    tag: String,
    attribute: String,
    value: String,
    /// The end of what was read, to find `-->` and `</script`.
    tail: String,
    fault: Option<String>,
}

impl Reader {
    fn read(&mut self, letter: char) {
        self.state = match self.state {
            State::Text if letter == '<' => State::Open,
            State::Text => State::Text,
            State::Open => self.opened(letter),
            State::TagName if letter == '>' => self.entered(),
            State::TagName if letter.is_whitespace() || letter == '/' => State::Tag,
            State::TagName => {
                push(&mut self.tag, letter);
                self.comment_or(State::TagName)
            }
            State::CloseTag if letter == '>' => State::Text,
            State::CloseTag => State::CloseTag,
            State::Tag if letter == '>' => self.entered(),
            State::Tag if letter.is_whitespace() || letter == '/' => State::Tag,
            State::Tag => self.named(letter),
            State::AttributeName if letter == '>' => self.entered(),
            State::AttributeName if letter == '=' => self.before_value(),
            State::AttributeName if letter == '/' => State::Tag,
            State::AttributeName if letter.is_whitespace() => State::AfterName,
            State::AttributeName => {
                push(&mut self.attribute, letter);
                State::AttributeName
            }
            State::AfterName if letter.is_whitespace() => State::AfterName,
            State::AfterName if letter == '=' => self.before_value(),
            State::AfterName if letter == '>' => self.entered(),
            State::AfterName if letter == '/' => State::Tag,
            State::AfterName => self.named(letter),
            State::BeforeValue if letter.is_whitespace() => State::BeforeValue,
            State::BeforeValue if letter == '"' => State::Value(Quote::Double),
            State::BeforeValue if letter == '\'' => State::Value(Quote::Single),
            State::BeforeValue if letter == '>' => self.entered(),
            State::BeforeValue => {
                push(&mut self.value, letter);
                State::Value(Quote::None)
            }
            State::Value(quote) => self.valued(quote, letter),
            State::Raw => self.raw(letter),
            State::Comment => self.comment(letter),
        };
    }

    fn opened(&mut self, letter: char) -> State {
        self.tag.clear();
        self.tail.clear();
        match letter {
            '/' => State::CloseTag,
            '<' => State::Open,
            letter if letter.is_ascii_alphabetic() || letter == '!' || letter == '?' => {
                push(&mut self.tag, letter);
                State::TagName
            }
            _ => State::Text,
        }
    }

    /// `<!--` begins a comment. `<!--[if mso]>` shows what follows to some clients, so it is read as markup.
    fn comment_or(&mut self, state: State) -> State {
        match self.tag.as_str() {
            "!--" => {
                // `<!-->` is a whole comment.
                self.tail = "--".to_owned();
                State::Comment
            }
            _ => state,
        }
    }

    fn named(&mut self, first: char) -> State {
        self.attribute.clear();
        push(&mut self.attribute, first);
        State::AttributeName
    }

    fn before_value(&mut self) -> State {
        self.value.clear();
        State::BeforeValue
    }

    fn valued(&mut self, quote: Quote, letter: char) -> State {
        let ends = match quote {
            Quote::Double => letter == '"',
            Quote::Single => letter == '\'',
            Quote::None => letter == '>' || letter.is_whitespace(),
        };
        if !ends {
            if self.value.len() < VALUE_BYTES_MAX {
                self.value.push(letter);
            }
            return State::Value(quote);
        }
        let is_refresh = self.tag == "meta" && self.attribute == "content";
        if is_refresh || PLACES.contains(&self.attribute.as_str()) {
            let value = unescape(&self.value);
            let fault = links::attribute_fault(if is_refresh { refresh_target(&value) } else { &value });
            let fault = fault.map(|fault| format!("{}: {fault}", self.attribute));
            self.fault = self.fault.take().or(fault);
        }
        if quote == Quote::None && letter == '>' { self.entered() } else { State::Tag }
    }

    /// After the `>` of an opening tag.
    fn entered(&mut self) -> State {
        self.tail.clear();
        if RAW.contains(&self.tag.as_str()) { State::Raw } else { State::Text }
    }

    fn raw(&mut self, letter: char) -> State {
        self.tail.push(letter.to_ascii_lowercase());
        if !format!("</{}", self.tag).starts_with(&self.tail) {
            self.tail.clear();
            if letter == '<' {
                self.tail.push(letter);
            }
        }
        if self.tail.len() == self.tag.len() + 2 { State::CloseTag } else { State::Raw }
    }

    fn comment(&mut self, letter: char) -> State {
        self.tail.push(letter);
        if self.tail.ends_with("-->") {
            return State::Text;
        }
        if self.tail == "--[if " {
            // `[if …]` is closed like a tag.
            return State::CloseTag;
        }
        if self.tail.len() > 8 {
            let keep = self.tail.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
            self.tail.drain(..keep);
        }
        State::Comment
    }

    fn variable_fault(&self) -> Option<String> {
        match self.state {
            State::Text | State::Comment => None,
            State::Value(Quote::Double | Quote::Single) if self.attribute.starts_with("on") => {
                Some(format!("a variable in {}, which runs as a script", self.attribute))
            }
            State::Value(Quote::Double | Quote::Single) if self.attribute == "srcdoc" => {
                Some("a variable in srcdoc, which is a document of its own".to_owned())
            }
            State::Value(Quote::Double | Quote::Single) if self.attribute == "style" => {
                Some("a variable in style, where a value can load and hide what it likes".to_owned())
            }
            State::Value(Quote::Double | Quote::Single) if is_in_url(&self.value) => {
                Some(format!("a variable inside url() of {}", self.attribute))
            }
            State::Value(Quote::Double | Quote::Single) => None,
            State::BeforeValue | State::Value(Quote::None) => {
                Some(format!("a variable as the value of {} without quotes", self.attribute))
            }
            State::Raw if matches!(self.tag.as_str(), "title" | "textarea") => None,
            State::Raw => Some(format!("a variable inside {}", self.tag)),
            State::Open
            | State::TagName
            | State::CloseTag
            | State::Tag
            | State::AttributeName
            | State::AfterName => {
                Some("a variable inside a tag but outside of an attribute's value".to_owned())
            }
        }
    }

    /// A variable is something, as far as reading goes on: what stands behind it is not the beginning of a value.
    fn see_variable(&mut self) {
        self.value.push(char::REPLACEMENT_CHARACTER);
        match self.state {
            State::BeforeValue => self.state = State::Value(Quote::None),
            State::Open => self.state = State::TagName,
            _ => {}
        }
    }
}

/// Whether a value is between `url(` and its end, as styles and some attributes of drawings write it.
fn is_in_url(value: &str) -> bool {
    let bare: String = unescape(value).chars().filter(|letter| !is_blank(*letter)).collect();
    let bare = bare.to_ascii_lowercase();
    bare.rfind("url(").is_some_and(|at| !bare[at..].contains(')'))
}

/// Where a `<meta http-equiv=refresh>` leads: what follows the seconds, with `url=` before it or without. Other contents
/// of `<meta>` begin with no number and lead nowhere.
fn refresh_target(content: &str) -> &str {
    let rest = content.trim_start_matches(is_blank);
    let target = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if target.len() == rest.len() {
        return "";
    }
    let target = target.trim_start_matches(|letter| is_blank(letter) || letter == ';' || letter == ',');
    let named =
        target.split_once('=').filter(|(name, _)| name.trim_matches(is_blank).eq_ignore_ascii_case("url"));
    let target = named.map_or(target, |(_, target)| target);
    target.trim_start_matches(|letter| is_blank(letter) || letter == '"' || letter == '\'')
}

fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

fn push(name: &mut String, letter: char) {
    if name.len() < 64 {
        name.push(letter.to_ascii_lowercase());
    }
}

/// Entities that can hide a scheme: numbers, and the few names that stand for letters of `javascript:`.
fn unescape(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').map_or(rest.len(), |end| end + 1);
        match entity(rest[1..end].trim_end_matches(';')) {
            Some(letter) => {
                out.push(letter);
                rest = &rest[end..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn entity(name: &str) -> Option<char> {
    let number = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        },
        None => match name.to_ascii_lowercase().as_str() {
            "colon" => u32::from(':'),
            "tab" | "newline" => u32::from(' '),
            _ => return None,
        },
    };
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `@` stands for a variable.
    fn faults(document: &str) -> usize {
        let parts = document.split_inclusive('@').flat_map(|piece| {
            let text = piece.strip_suffix('@');
            [Some(Part::Text(text.unwrap_or(piece))), text.map(|_| Part::Variable { line: 1 })]
        });
        variable_faults(parts.flatten()).len()
    }

    #[test]
    fn variables_stand_in_text_and_in_quotes() {
        for safe in [
            "@",
            "<p>@</p>",
            "<p class=\"a @ b\" id='@'>@</p>",
            "<a href = \"@\" target=_blank>@</a>",
            "<br/>@<img src=\"@\"/>@",
            "<!-- @ -->@",
            "<!--[if mso]><td width=\"@\"><![endif]-->@",
            "<style>p{color:red}</style>@",
            "<td style=\"width:1px\" width=\"@\" bgcolor='@'>",
            "<path fill=\"url(#a)@\">",
            "<script>var a = '<p>' + \"</\" + 1</script>@",
            "a < b @ > c",
            "<!doctype html>@",
            "<p a>@</p>",
            "<p a b = \"@\">",
            "<!--[if !mso]><!--><a href=\"@\">@<!--<![endif]-->@",
        ] {
            assert_eq!(faults(safe), 0, "{safe}");
        }
        for unsafe_place in [
            "<a href=@>",
            "<a href= @>",
            "<a href=x@>",
            "<@>",
            "<p@>",
            "<p @>",
            "<p @=\"x\">",
            "</@>",
            "<script>@</script>",
            "<SCRIPT type='x'>a</p>@</SCRIPT>",
            "<a onclick=\"@\">",
            "<a ONCLICK='go(@)'>",
            "<iframe srcdoc=\"@\">",
            "<!--[if mso]><td width=@><![endif]-->",
            "<p title=\"a\"@>",
            "<p a @>",
            "<!--[if !mso]><!--><a href=@><!--<![endif]-->",
            "<td style=\"width:@px\">",
            "<td STYLE = 'color:red;@'>",
            "<p style=\"background:url(@)\">",
            "<style>p{color:@}</style>",
            "<STYLE media='x'>@</style>",
            "<path fill=\"URL( '@\">",
            "<path mask='&#117;rl(#a) url(@)'>",
        ] {
            assert_eq!(faults(unsafe_place), 1, "{unsafe_place}");
        }
    }

    #[test]
    fn links_that_are_written_out_are_checked_at_once() {
        let parts = |document: &'static str| {
            let cut = document.split_once('@').expect("a variable");
            [Part::Text(cut.0), Part::Variable { line: 1 }, Part::Text(cut.1)]
        };
        for (document, found) in [
            ("<p>@<img src=\"data:x\">", true),
            ("<img src=\"data:x\">@<img src=\"cid:x\">", true),
            ("<a href=\"javascript:@\">", true),
            ("<a href=\"@data:x\">", false),
            ("<a href=\"https://a.b/@\">", false),
        ] {
            assert_eq!(written_link_fault(parts(document)).is_some(), found, "{document}");
        }
    }

    // fixes: usability C16
    #[test]
    fn links_that_run_are_found() {
        for (document, found) in [
            ("<a href=\"https://a.b\">javascript:x</a>", false),
            ("<a href=\"#a\"><img src='cid:x'><a href=mailto:a@b.c>", false),
            ("<a title=\"javascript:x\">", false),
            ("<a href=\"javascript:x\">", true),
            ("<a\nhref\n=\n'JavaScript:x'>", true),
            ("<a href=javascript:x>", true),
            ("<a download href=\"javascript:x\">", true),
            ("<a href=\"&#106;avascript:x\">", true),
            ("<a href=\"&#x6A;avascript&colon;x\">", true),
            ("<a href=\" java&#10;script:x\">", true),
            ("<img src=\"data:text/html,x\">", true),
            ("<meta http-equiv=refresh content=\"0;url=javascript:x\">", true),
            ("<META content='5 ; URL = \"JavaScript:x' http-equiv=refresh>", true),
            ("<meta http-equiv=refresh content=\"0,javascript:x\">", true),
            ("<meta http-equiv=refresh content=\"&#48;;url=&#106;avascript:x\">", true),
            ("<meta http-equiv=refresh content=\"1.5; url=data:text/html,x\">", true),
            ("<meta http-equiv=refresh content=\"0;url=https://a.b/?c=javascript:x\">", false),
            ("<meta name=description content=\"javascript: the good parts\">", false),
            ("<meta name=viewport content=\"width=device-width\">", false),
            ("<!-- <a href=\"javascript:x\"> -->", false),
            ("<!--[if mso]><a href=\"javascript:x\"><![endif]-->", true),
        ] {
            assert_eq!(link_fault(document).is_some(), found, "{document}");
        }
    }
}

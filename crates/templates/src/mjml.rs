//! MJML becomes HTML once, when a template is created: errors show before anything is sent, and an email costs as much
//! to render as plain HTML. Tags of the template language are put aside meanwhile, and must all come back.
//!
//! Nothing is loaded: `mj-include` finds nothing, and fonts are linked only if the source says from where.

use crate::limits::{HTML_SOURCE_BYTES_MAX, MARKUP_DEPTH_MAX};
use crate::source::tags;
use mrml::prelude::render::RenderOptions;
use std::collections::HashMap;

/// Elements without an end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

pub fn is_mjml(source: &str) -> bool {
    source.trim_start().starts_with("<mjml")
}

/// The HTML, or what is wrong.
pub fn to_html(source: &str) -> Result<String, String> {
    let tags = tags(source).map_err(|(_, detail)| detail)?;
    // A word that the author did not write stands for each tag.
    let mut word = "fantailtag".to_owned();
    while source.contains(&word) {
        word.push('q');
    }
    let stand_in = |index: usize| format!("{word}{index}z");
    let mut plain = String::with_capacity(source.len());
    let mut from = 0;
    for (index, tag) in tags.iter().enumerate() {
        plain.push_str(&source[from..tag.start]);
        plain.push_str(&stand_in(index));
        from = tag.end;
    }
    plain.push_str(&source[from..]);
    check_depth(&plain)?;
    let document = mrml::parse(&plain).map_err(|error| error.to_string())?;
    let options =
        RenderOptions { disable_comments: false, social_icon_origin: None, fonts: HashMap::default() };
    let mut html = document.element.render(&options).map_err(|error| error.to_string())?;
    // From the last one on, so that no stand-in is the beginning of another one.
    for (index, tag) in tags.iter().enumerate().rev() {
        let stand_in = stand_in(index);
        if !html.contains(&stand_in) {
            return Err(format!("{} would be lost here: put it into mj-raw or a text", &source[tag.clone()]));
        }
        html = html.replace(&stand_in, &source[tag.clone()]);
        if html.len() > HTML_SOURCE_BYTES_MAX {
            return Err(format!("becomes more than {HTML_SOURCE_BYTES_MAX} bytes of HTML"));
        }
    }
    Ok(html)
}

/// The parser is recursive, so depth is bounded before it begins.
fn check_depth(source: &str) -> Result<(), String> {
    let mut depth: usize = 0;
    for piece in source.split('<').skip(1) {
        let name: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if piece.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !name.is_empty() && !VOID.contains(&name.to_ascii_lowercase().as_str()) {
            let tag = piece.split('>').next().unwrap_or_default();
            depth += usize::from(!tag.ends_with('/'));
        }
        if depth > MARKUP_DEPTH_MAX {
            return Err(format!("elements nest deeper than {MARKUP_DEPTH_MAX}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(inner: &str) -> String {
        format!("<mjml><mj-body><mj-section><mj-column>{inner}</mj-column></mj-section></mj-body></mjml>")
    }

    // proves: EML-06
    #[test]
    fn tags_come_through_unchanged() {
        let inner = "<mj-text>Hi {{ name|default(\"<you>\") }}</mj-text>\
                     <mj-raw>{% if a < 3 and b > 2 %}</mj-raw><mj-button href=\"{{ url }}\">Go</mj-button>\
                     <mj-raw>{% endif %}</mj-raw>";
        let html = to_html(&body(inner)).expect("HTML");
        for part in
            ["{{ name|default(\"<you>\") }}", "href=\"{{ url }}\"", "{% if a < 3 and b > 2 %}", "{% endif %}"]
        {
            assert!(html.contains(part), "{part}");
        }
        assert!(html.contains("<!doctype html>") && !html.contains("fantailtag"));
        assert_eq!(html, to_html(&body(inner)).expect("HTML"), "the same bytes each time");
    }

    #[test]
    fn more_than_ten_tags_are_kept_apart() {
        let many: String = (0..25).map(|n| format!("{{{{ v{n} }}}} ")).collect();
        let html = to_html(&body(&format!("<mj-text>fantailtag {many}</mj-text>"))).expect("HTML");
        assert!((0..25).all(|n| html.contains(&format!("{{{{ v{n} }}}}"))));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let deep = "<div>".repeat(5_000) + &"</div>".repeat(5_000);
        for (source, part) in [
            ("<mjml><mj-body>".to_owned(), ""),
            ("<mjml><mj-nope/></mjml>".to_owned(), ""),
            (body("<mj-include path=\"/etc/passwd\"/>"), ""),
            (body(&format!("<mj-text>{deep}</mj-text>")), "deeper"),
            ("<p>x</p>".to_owned(), ""),
            (String::new(), ""),
        ] {
            let error = to_html(&source).expect_err(&source);
            assert!(error.contains(part), "{error}");
        }
    }
}

//! Shorter texts for payloads that are too large: cut where a reader sees an end, and marked as cut.
//!
//! What must never happen: half a letter. A base letter keeps its marks, joined emoji stay joined, flags stay whole.

/// What stands for the rest.
const ELLIPSIS: char = '…';

/// The longest beginning that, with an ellipsis, has at most so many bytes; the text itself if it fits. Nothing if not
/// even an ellipsis fits.
#[must_use]
pub fn shorten(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let Some(room) = bytes_max.checked_sub(ELLIPSIS.len_utf8()) else { return String::new() };
    let mut end = text.floor_char_boundary(room);
    while end > 0 && splits_letter(text, end) {
        end = text.floor_char_boundary(end - 1);
    }
    let mut short = text[..end].trim_end().to_owned();
    short.push(ELLIPSIS);
    short
}

/// The text, shortened by as much as its encoding is too large; `None` if it is too large even without the text. `measure`
/// says how many bytes the whole has with a given text, in which every byte of the text takes at least one.
#[must_use]
pub fn fit(text: &str, bytes_max: usize, measure: impl Fn(&str) -> usize) -> Option<String> {
    let excess = measure(text).saturating_sub(bytes_max);
    if excess == 0 {
        return Some(text.to_owned());
    }
    let short = shorten(text, text.len().saturating_sub(excess));
    (measure(&short) <= bytes_max).then_some(short)
}

/// Whether what follows belongs to the letter before.
fn splits_letter(text: &str, at: usize) -> bool {
    let Some(next) = text[at..].chars().next() else { return false };
    let before = text[..at].chars().next_back();
    if extends(next) || before == Some(JOINER) {
        return true;
    }
    // Flags are pairs: an odd number of halves before means that this is the second one.
    is_flag_half(next) && text[..at].chars().rev().take_while(|letter| is_flag_half(*letter)).count() % 2 == 1
}

const JOINER: char = '\u{200d}';

/// Marks, variation selectors, skin tones, joiners and tags: nothing that stands alone.
fn extends(letter: char) -> bool {
    matches!(letter,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{93c}' | '\u{93e}'..='\u{94d}' | '\u{e31}' | '\u{e34}'..='\u{e3a}'
        | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | JOINER
        | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

fn is_flag_half(letter: char) -> bool {
    matches!(letter, '\u{1f1e6}'..='\u{1f1ff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_cut_between_letters() {
        for (text, bytes_max, expected) in [
            ("hello", 5, "hello"),
            ("hello", 4, "h…"),
            ("hello", 3, "…"),
            ("hello", 2, ""),
            ("a b c d e", 7, "a b…"),
            ("grüße", 6, "gr…"),
            ("cafe\u{301} noir", 8, "caf…"),
            ("cafe\u{301} noir", 9, "cafe\u{301}…"),
            ("a👩\u{200d}👧b and", 12, "a…"),
            ("🇫🇷🇩🇪🇦🇹", 19, "🇫🇷🇩🇪…"),
            ("🇫🇷🇩🇪🇦🇹", 18, "🇫🇷…"),
            ("👍🏽 ok", 8, "…"),
        ] {
            assert_eq!(shorten(text, bytes_max), expected, "{text} in {bytes_max}");
        }
    }

    #[test]
    fn what_is_too_large_is_measured_again() {
        let measure = |text: &str| 10 + serde_json::to_string(text).map_or(0, |json| json.len());
        assert_eq!(fit("hello", 17, measure).as_deref(), Some("hello"));
        assert_eq!(fit("hello", 16, measure).as_deref(), Some("h…"));
        assert_eq!(fit("\"\"\"\"hello", 19, measure).as_deref(), Some("…"), "quotes take two bytes");
        assert_eq!(fit("hello", 12, measure).as_deref(), Some(""));
        assert_eq!(fit("hello", 11, measure), None);
    }

    proptest! {
        #[test]
        fn it_always_fits_and_begins_as_the_text_does(text in "\\PC{0,60}", bytes_max in 0usize..200) {
            let short = shorten(&text, bytes_max);
            prop_assert!(short.len() <= bytes_max);
            prop_assert!(short == text || text.starts_with(short.trim_end_matches(ELLIPSIS)));
        }
    }
}

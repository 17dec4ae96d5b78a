//! Where recipients reach the server: what links begin with.

/// Without a slash at the end; empty if nothing is said. Or what it must be.
pub fn read(text: &str) -> Result<String, &'static str> {
    let url = text.trim_end_matches('/');
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_plain = |host: &str| {
        let begins = host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        begins && host.chars().all(|one| one.is_ascii_graphic() && !"?#<>\"@".contains(one))
    };
    if url.is_empty() || host.is_some_and(is_plain) {
        return Ok(url.to_owned());
    }
    Err("must be a URL like https://notify.example.com, without a query")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_with_a_plain_url() {
        for (given, kept) in [
            ("", ""),
            ("https://n.example.com/", "https://n.example.com"),
            ("https://example.com/notify//", "https://example.com/notify"),
            ("http://[::1]:7070", "http://[::1]:7070"),
        ] {
            assert_eq!(read(given).as_deref(), Ok(kept));
        }
        for bad in [
            "n.example.com",
            "ftp://a",
            "https://",
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https:///a",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}

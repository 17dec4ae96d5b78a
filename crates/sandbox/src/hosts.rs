//! Which emulator a host name means. A `*` in a pattern stands for one label: `email.*.amazonaws.com`.

/// Without port, in lower case.
#[must_use]
pub fn name(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[must_use]
pub fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.split('.'), host.split('.'));
    pattern.clone().count() == host.clone().count()
        && pattern.zip(host).all(|(wanted, label)| wanted == label || (wanted == "*" && !label.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label() {
        for (pattern, host, expected) in [
            ("api.push.apple.com", "api.push.apple.com", true),
            ("api.push.apple.com", "api.sandbox.push.apple.com", false),
            ("email.*.amazonaws.com", "email.eu-west-1.amazonaws.com", true),
            ("email.*.amazonaws.com", "email.a.b.amazonaws.com", false),
            ("email.*.amazonaws.com", "email..amazonaws.com", false),
            ("*", "localhost", true),
        ] {
            assert_eq!(matches(pattern, host), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn ports_and_case_do_not_count() {
        for (authority, expected) in [
            ("Api.Push.Apple.com:2197", "api.push.apple.com"),
            ("127.0.0.1:443", "127.0.0.1"),
            ("[::1]:443", "::1"),
            ("localhost.", "localhost"),
            ("", ""),
        ] {
            assert_eq!(name(authority), expected);
        }
    }
}

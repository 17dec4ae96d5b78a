//! How deep JSON nests, found without recursion: readers that recurse see only what passes.

/// What a request may nest, and what an event carries encoded in it.
pub const JSON_DEPTH_MAX: usize = 32;

/// Whether arrays and objects nest deeper than so many levels. Any bytes may be given.
#[must_use]
pub fn is_deeper_than(depth_max: usize, json: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for byte in json {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

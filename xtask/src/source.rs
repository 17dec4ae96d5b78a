//! One Rust file, split into what is code and what is not. It is not a parser: it knows comments, strings,
//! characters and braces, which is enough for the rules and costs no dependency.
//!
//! Masked code has the same length and the same lines as the text; comments and literals are blank in it.

/// A file of Rust source.
pub struct Source {
    pub text: String,
    /// The text with comments, strings and characters replaced by spaces.
    pub code: String,
    /// The contents of all string literals before the tests, as written (escapes are not resolved).
    pub literals: Vec<String>,
    /// Byte offset of the `#[cfg(test)]` before `mod tests { … }`; the end if there is none.
    pub tests_at: usize,
}

/// A function with a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    pub name: String,
    /// Where it begins, counted from 1.
    pub line: usize,
    /// From the line of its `fn` to the line of its closing brace.
    pub lines: usize,
}

impl Source {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut masker =
            Masker { bytes: text.as_bytes(), code: text.as_bytes().to_vec(), literals: Vec::new() };
        masker.run();
        let code: String =
            masker.code.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { ' ' }).collect();
        let tests_at = tests_offset(&code).unwrap_or(code.len());
        let literals = masker
            .literals
            .iter()
            .filter(|range| range.start < tests_at)
            .map(|range| text[range.clone()].to_string())
            .collect();
        Self { text: text.to_string(), code, literals, tests_at }
    }

    /// Lines before the tests.
    #[must_use]
    pub fn lines_without_tests(&self) -> usize {
        self.text[..self.tests_at].lines().count()
    }

    /// The line of a byte offset, counted from 1.
    #[must_use]
    pub fn line_of(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The leading `//!` lines without their marks, joined by spaces; empty if the file does not begin with one.
    #[must_use]
    pub fn header(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with("//!"));
        lines.map(|line| line.trim_start_matches("//!").trim()).collect::<Vec<_>>().join(" ")
    }

    /// Offsets at which `word` stands in the code, not inside a longer name.
    #[must_use]
    pub fn code_offsets(&self, word: &str) -> Vec<usize> {
        let named = |byte: Option<&u8>| byte.is_some_and(|byte| is_name(*byte));
        let bytes = self.code.as_bytes();
        let starts_as_name = named(word.as_bytes().first());
        let ends_as_name = named(word.as_bytes().last());
        self.code
            .match_indices(word)
            .map(|(offset, _)| offset)
            .filter(|offset| !(starts_as_name && *offset > 0 && named(bytes.get(offset - 1))))
            .filter(|offset| !(ends_as_name && named(bytes.get(offset + word.len()))))
            .collect()
    }

    /// All functions with a body, nested ones too, in the order of the text.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.code_offsets("fn").into_iter().filter_map(|offset| self.function_at(offset)).collect()
    }

    fn function_at(&self, offset: usize) -> Option<Function> {
        let rest = self.code[offset + 2..].trim_start();
        let name: String =
            rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        if name.is_empty() {
            return None;
        }
        let open = body_offset(&self.code, offset)?;
        let close = matching_brace(&self.code, open)?;
        let line = self.line_of(offset);
        Some(Function { name, line, lines: self.line_of(close) - line + 1 })
    }
}

/// Where the body of the function whose `fn` is at `from` opens; `None` for a declaration.
fn body_offset(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(offset),
            b';' | b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(offset),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Where a `#[cfg(test)] mod tests { … }` begins.
fn tests_offset(code: &str) -> Option<usize> {
    code.match_indices("#[cfg(test)]").map(|(offset, _)| offset).find(|offset| {
        let mut rest = code[*offset..].trim_start();
        while rest.starts_with("#[") {
            rest = rest.find(']').map_or("", |end| rest[end + 1..].trim_start());
        }
        rest.strip_prefix("mod tests").is_some_and(|rest| rest.trim_start().starts_with('{'))
    })
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Masker<'a> {
    bytes: &'a [u8],
    code: Vec<u8>,
    literals: Vec<std::ops::Range<usize>>,
}

impl Masker<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.bytes.len() {
            let end = match self.bytes[at] {
                b'/' if self.bytes[at..].starts_with(b"//") => self.line_end(at),
                b'/' if self.bytes[at..].starts_with(b"/*") => self.block_comment_end(at),
                b'"' => self.string_end(at),
                b'r' if self.may_begin_literal(at) => self.raw_string_end(at),
                b'\'' => self.character_end(at),
                _ => at,
            };
            self.blank(at, end);
            at = end.max(at + 1);
        }
    }

    fn blank(&mut self, from: usize, to: usize) {
        for byte in &mut self.code[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    /// An `r` begins a raw string only if no name ends in it; `br` and `cr` begin one too.
    fn may_begin_literal(&self, at: usize) -> bool {
        let prefixed = at > 0 && matches!(self.bytes[at - 1], b'b' | b'c');
        let before = at.checked_sub(if prefixed { 2 } else { 1 });
        !before.is_some_and(|before| is_name(self.bytes[before]))
    }

    fn line_end(&self, at: usize) -> usize {
        find(self.bytes, at, b"\n").unwrap_or(self.bytes.len())
    }

    fn block_comment_end(&self, at: usize) -> usize {
        let (mut depth, mut at) = (0usize, at);
        while at < self.bytes.len() {
            if self.bytes[at..].starts_with(b"/*") {
                (depth, at) = (depth + 1, at + 2);
            } else if self.bytes[at..].starts_with(b"*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        self.bytes.len()
    }

    fn string_end(&mut self, open: usize) -> usize {
        let mut at = open + 1;
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'\\' => at += 2,
                b'"' => {
                    self.literals.push(open + 1..at);
                    return at + 1;
                }
                _ => at += 1,
            }
        }
        self.bytes.len()
    }

    /// The end of a raw string, or `at` if this `r` is a name (`r#type`, `return`).
    fn raw_string_end(&mut self, at: usize) -> usize {
        let hashes = self.bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
        let open = at + 1 + hashes;
        if self.bytes.get(open) != Some(&b'"') {
            return at;
        }
        let mut closing = vec![b'"'];
        closing.resize(1 + hashes, b'#');
        match find(self.bytes, open + 1, &closing) {
            Some(close) => {
                self.literals.push(open + 1..close);
                close + closing.len()
            }
            None => self.bytes.len(),
        }
    }

    /// The end of a character literal, or `at` if the quote begins a lifetime.
    fn character_end(&self, at: usize) -> usize {
        let rest = &self.bytes[at + 1..];
        let Some(first) = rest.first() else { return at };
        let content = match first {
            b'\\' => 2,
            b'\'' => return at,
            byte if *byte < 0x80 => 1,
            byte => (byte.leading_ones() as usize).clamp(1, 4),
        };
        if *first == b'\\' {
            return find(self.bytes, at + 1 + content, b"'").map_or(at, |close| close + 1);
        }
        if rest.get(content) == Some(&b'\'') { at + content + 2 } else { at }
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|offset| from + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_code(text: &str, expected: &str) {
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.len(), "masking keeps offsets: {text}");
        let squeezed: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(squeezed.join(" "), expected, "{text}");
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        check_code("a /* b /* c */ d */ e // f\ng", "a e g");
        check_code(r#"a("b { \" c", d)"#, "a( , d)");
        check_code(r##"a(r#"b " { c"#, br"d\", e)"##, "a( , b , e)");
        check_code("r#type for r in rr", "r#type for r in rr");
        check_code(
            r"match c { '{' | '\'' | '\u{7d}' | 'é' => 'x: &'a str }",
            "match c { | | | => 'x: &'a str }",
        );
        check_code("\"unfinished", "");
        check_code("it's", "it's");
    }

    #[test]
    fn multibyte_text_keeps_offsets() {
        let source = Source::new("// é…\nfn a() {\n}\n");
        assert_eq!(source.functions(), [Function { name: "a".into(), line: 2, lines: 2 }]);
    }

    #[test]
    fn literals_before_the_tests_are_listed() {
        let source = Source::new(
            "const A: &str = \"ONE\"; /* \"NO\" */ r\"TWO\";\n#[cfg(test)]\nmod tests { \"THREE\" }",
        );
        assert_eq!(source.literals, ["ONE", "TWO"]);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = "
            trait T { fn declared(&self, a: [u8; 4]) -> u8; fn given(&self) {} }
            fn outer<const N: usize>(f: fn(u8) -> u8) -> [u8; 2]
            where u8: Copy,
            {
                fn inner() { let _ = \"}\"; }
                [0; 2]
            }";
        let found: Vec<_> =
            Source::new(text).functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        let expected = [("given", 2, 1), ("outer", 3, 6), ("inner", 6, 1)];
        assert_eq!(found, expected.map(|(name, line, lines)| (name.to_string(), line, lines)));
    }

    #[test]
    fn only_an_inline_test_module_ends_the_code() {
        let lines = |text: &str| Source::new(text).lines_without_tests();
        assert_eq!(lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(lines("a\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n}\n"), 1);
        assert_eq!(lines("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
        assert_eq!(lines("a\n#[cfg(test)]\nfn only_in_tests() {}\nb\n"), 4);
        assert_eq!(lines("a\n// #[cfg(test)] mod tests {\nb\n"), 3);
    }

    #[test]
    fn words_are_found_whole_and_only_in_code() {
        let source = Source::new("async fn a() {}\nlet asynchronous = 1; // async\nx.await;\n\"async\"");
        let lines = |word| -> Vec<usize> {
            source.code_offsets(word).into_iter().map(|offset| source.line_of(offset)).collect()
        };
        assert_eq!(lines("async"), [1]);
        assert_eq!(lines(".await"), [3]);
    }

    #[test]
    fn header_is_the_leading_block_only() {
        assert_eq!(Source::new("//! One\n//! two.\n\n//! three\n").header(), "One two.");
        assert_eq!(Source::new("use a;\n//! late\n").header(), "");
    }
}

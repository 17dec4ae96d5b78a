//! One source in the template language: cut into tags, measured, and parsed. Nothing is parsed before it is measured:
//! the parser and everything after it walk trees recursively.

use crate::limits::{TAG_TOKENS_MAX, TAGS_MAX};
use crate::problems::Problems;
use fantail_wire::template::ProblemCode;
use minijinja::machinery::{Token, Tokenizer, ast, parse};
use minijinja::syntax::SyntaxConfig;
use std::ops::Range;

/// Whether a text has anything to render. A lone brace is text.
pub fn has_tags(source: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|open| source.contains(open))
}

/// The syntax tree, `None` after adding a problem.
pub fn parse_source<'a>(source: &'a str, pointer: &str, problems: &mut Problems) -> Option<ast::Stmt<'a>> {
    if let Err((code, detail)) = tags(source) {
        problems.add(pointer, code, detail);
        return None;
    }
    match parse(source, "", SyntaxConfig::default()) {
        Ok(tree) => Some(tree),
        Err(error) => {
            problems.add(pointer, ProblemCode::Syntax, syntax_detail(&error));
            None
        }
    }
}

/// Where every tag stands, delimiters included.
pub fn tags(source: &str) -> Result<Vec<Range<usize>>, (ProblemCode, String)> {
    let mut tokenizer = Tokenizer::new(source, "", false, SyntaxConfig::default());
    let mut tags = Vec::new();
    let (mut begins_at, mut tokens) = (0, 0);
    loop {
        let (token, span) = match tokenizer.next_token() {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(tags),
            Err(error) => return Err((ProblemCode::Syntax, syntax_detail(&error))),
        };
        tokens += 1;
        match token {
            Token::VariableStart | Token::BlockStart => (begins_at, tokens) = (span.start_offset as usize, 0),
            Token::VariableEnd | Token::BlockEnd => {
                tags.push(begins_at..span.end_offset as usize);
            }
            _ => {}
        }
        if tokens > TAG_TOKENS_MAX {
            let detail = format!("line {}: more than {TAG_TOKENS_MAX} words in one tag", span.start_line);
            return Err((ProblemCode::TooComplex, detail));
        }
        if tags.len() > TAGS_MAX {
            return Err((ProblemCode::TooComplex, format!("more than {TAGS_MAX} tags")));
        }
    }
}

fn syntax_detail(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    format!("line {}: {what}", error.line().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_cut_out_whole() {
        let source = "ä {{ x }} {%- if y == \"}}\" -%} {# c #} {{ z|upper }}{% endif %}";
        let found: Vec<&str> = tags(source).expect("tags").into_iter().map(|tag| &source[tag]).collect();
        assert_eq!(found, ["{{ x }}", "{%- if y == \"}}\" -%}", "{{ z|upper }}", "{% endif %}"]);
        assert!(has_tags("{{ x }}") && has_tags("{# x #}") && !has_tags("{ x } 100 %}"));
    }

    #[test]
    fn errors_name_their_line() {
        for (source, code, part) in [
            ("a\n{{ x", ProblemCode::Syntax, "line 2"),
            ("{% if %}", ProblemCode::Syntax, "line 1"),
            ("a\n\n{% for x in %}{% endfor %}", ProblemCode::Syntax, "line 3"),
            ("{% if x %}", ProblemCode::Syntax, "line 1"),
            ("{% nope %}", ProblemCode::Syntax, "nope"),
            ("{{ 'x }}", ProblemCode::Syntax, "line 1"),
        ] {
            let mut problems = Problems::default();
            assert!(parse_source(source, "/x", &mut problems).is_none(), "{source}");
            let problem = problems.into_vec().remove(0);
            assert_eq!(problem.code, code, "{source}");
            assert!(problem.detail.contains(part), "{source}: {}", problem.detail);
        }
    }

    /// Each of these becomes a deep tree; tests run with the stack of a worker thread.
    #[test]
    fn deep_sources_are_refused_before_they_are_walked() {
        let cases = [
            format!("{{{{ {}x }}}}", "x~".repeat(20_000)),
            format!("{{{{ x{} }}}}", ".a".repeat(20_000)),
            format!("{{{{ x{} }}}}", "|upper".repeat(20_000)),
            format!("{{{{ {}x }}}}", "(".repeat(190)),
            format!("{{{{ {}x }}}}", "not ".repeat(20_000)),
            format!("{{{{ {}1 }}}}", "-".repeat(20_000)),
            format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(20_000)),
            "{% if x %}".repeat(900) + &"{% endif %}".repeat(100),
        ];
        for source in cases {
            let mut problems = Problems::default();
            let parsed = parse_source(&source, "/x", &mut problems);
            assert!(parsed.is_none() && problems.count() == 1, "{}", &source[..40]);
        }
    }
}

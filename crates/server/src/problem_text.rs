//! Problem documents as text: what a command prints when the server refuses a request, and the exit code that goes with it.
//!
//! Input: an answer of the server. Invariant: what the server says is data and never moves the cursor of a terminal.

use crate::client::Response;
use fantail_wire::problem::Problem;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

/// The command failed on this side: a file, a flag, a key.
const FAILED: u8 = 1;
/// The server refuses the request; the same request fails again. 2 is a command line that clap refuses.
const REFUSED: u8 = 3;
/// The server did not answer, or could not do it now; the same request may succeed later.
const UNAVAILABLE: u8 = 4;
/// How much of an answer is printed that is no problem document.
const SHOWN_CHARS_MAX: usize = 500;

/// An answer with another status than the expected one.
#[derive(Debug)]
pub struct ServerRefusal {
    status: u16,
    /// `None`: the answer is no problem document, for instance because a proxy made it.
    problem: Option<Box<Problem>>,
    text: String,
}

impl ServerRefusal {
    #[must_use]
    pub fn of(response: &Response) -> Self {
        let problem = serde_json::from_slice(&response.body).ok().map(Box::new);
        let text = response.text().chars().take(SHOWN_CHARS_MAX).collect();
        Self { status: response.status, problem, text }
    }
}

impl std::error::Error for ServerRefusal {}

impl Display for ServerRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(problem) = &self.problem else {
            return write!(f, "the server answered {}: {}", self.status, Printable(&self.text));
        };
        write!(f, "{} ({} {})", Printable(&problem.title), self.status, problem.code.text())?;
        if problem.errors.is_empty() {
            write!(f, "\n  {}", Printable(&problem.detail))?;
        }
        for error in &problem.errors {
            let field = if error.pointer.is_empty() { "the body" } else { &error.pointer };
            write!(f, "\n  {}: {}", Printable(field), Printable(&error.detail))?;
        }
        write!(f, "\n  what to do: docs{}.md", Printable(&problem.kind))?;
        write!(f, "\n  request: {}", Printable(&problem.request_id))
    }
}

/// Text without control characters.
struct Printable<'a>(&'a str);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            let shown = if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
            write!(f, "{shown}")?;
        }
        Ok(())
    }
}

/// What a script can tell apart without reading the text.
#[must_use]
pub fn exit_code_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(number_of(error))
}

fn number_of(error: &anyhow::Error) -> u8 {
    if let Some(refusal) = error.downcast_ref::<ServerRefusal>() {
        let is_for_now = matches!(refusal.status, 408 | 429 | 500..);
        return if is_for_now { UNAVAILABLE } else { REFUSED };
    }
    if error.downcast_ref::<NoAnswer>().is_some() { UNAVAILABLE } else { FAILED }
}

/// The server could not be reached, or broke off.
#[derive(Debug)]
pub struct NoAnswer(pub std::io::Error);

impl std::error::Error for NoAnswer {}

impl Display for NoAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "no answer from the server: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_wire::code::Code;
    use fantail_wire::problem::FieldError;

    fn problem(code: Code, errors: Vec<FieldError>) -> Problem {
        Problem {
            kind: "/errors/x".to_owned(),
            title: code.title().to_owned(),
            status: code.status(),
            detail: "what happened".to_owned(),
            code,
            request_id: "r1".to_owned(),
            errors,
        }
    }

    fn refusal(status: u16, problem: Option<Problem>, text: &str) -> ServerRefusal {
        ServerRefusal { status, problem: problem.map(Box::new), text: text.to_owned() }
    }

    // fixes: usability §3.12
    #[test]
    fn problems_are_printed_for_people() {
        for (refusal, expected) in [
            (
                refusal(404, Some(problem(Code::EventNotFound, Vec::new())), ""),
                "There is no such event (404 EVENT_NOT_FOUND)\n  what happened\n  what to do: docs/errors/x.md\n  request: r1",
            ),
            (
                refusal(
                    422,
                    Some(problem(
                        Code::InvalidRequest,
                        vec![
                            FieldError::new("/slug", "is too long"),
                            FieldError::new("", "is \u{1b}[2J wrong"),
                        ],
                    )),
                    "",
                ),
                "The request has invalid fields (422 INVALID_REQUEST)\n  /slug: is too long\n  the body: is \u{fffd}[2J wrong\n  what to do: docs/errors/x.md\n  request: r1",
            ),
            (refusal(502, None, "Bad Gateway"), "the server answered 502: Bad Gateway"),
        ] {
            assert_eq!(refusal.to_string(), expected);
        }
    }

    #[test]
    fn exit_codes_say_whether_to_try_again() {
        let no_answer = NoAnswer(std::io::ErrorKind::ConnectionRefused.into());
        for (error, expected) in [
            (anyhow::anyhow!("no such file"), FAILED),
            (refusal(404, None, "").into(), REFUSED),
            (refusal(409, None, "").into(), REFUSED),
            (refusal(429, None, "").into(), UNAVAILABLE),
            (refusal(503, None, "").into(), UNAVAILABLE),
            (anyhow::Error::from(refusal(422, None, "")).context("while it was asked"), REFUSED),
            (no_answer.into(), UNAVAILABLE),
        ] {
            assert_eq!(number_of(&error), expected, "{error:#}");
        }
    }
}

//! What a recipient's name asks for.
//!
//! | local part | outcome |
//! |---|---|
//! | `sandbox-550-5.1.1` | refused so; `sandbox-dot-554-5.7.1` only after the mail; with 421 the connection ends |
//! | `sandbox-bounce`, `sandbox-soft-bounce`, `sandbox-delay` | taken, then a report: 5.1.1, 5.2.2, 4.4.1 |
//! | `sandbox-complaint` | taken, then a complaint |
//! | `sandbox-lose-connection`, `sandbox-lose-answer` | taken, and no answer |
//! | `sandbox-black-hole` | not taken, and no answer |
//!
//! Behind a `+` stands what is not looked at.

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Script {
    Take,
    /// When it is named.
    Refuse(String),
    /// After the final dot.
    RefuseMail(String),
    TakeThenReport(Report),
    LoseConnection,
    LoseAnswer,
    BlackHole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    Failed { status: &'static str, reply: &'static str },
    Delayed,
    Complaint,
}

pub const MAGIC: &str = "sandbox-";

pub fn script(recipient: &str) -> Script {
    let local = recipient.rsplit_once('@').map_or(recipient, |(local, _)| local);
    let local = local.split('+').next().unwrap_or_default();
    let Some(wish) = local.strip_prefix(MAGIC) else { return Script::Take };
    match wish {
        "bounce" => {
            Script::TakeThenReport(Report::Failed { status: "5.1.1", reply: "550 5.1.1 no such user here" })
        }
        "soft-bounce" => {
            Script::TakeThenReport(Report::Failed { status: "5.2.2", reply: "552 5.2.2 mailbox full" })
        }
        "delay" => Script::TakeThenReport(Report::Delayed),
        "complaint" => Script::TakeThenReport(Report::Complaint),
        "lose-connection" => Script::LoseConnection,
        "lose-answer" => Script::LoseAnswer,
        "black-hole" => Script::BlackHole,
        _ => match wish.strip_prefix("dot-") {
            Some(wish) => reply(wish).map_or(Script::Take, Script::RefuseMail),
            None => reply(wish).map_or(Script::Take, Script::Refuse),
        },
    }
}

/// `550-5.1.1` is `550 5.1.1 as the sandbox was asked`.
pub fn reply(wish: &str) -> Option<String> {
    let (code, enhanced) = wish.split_once('-').map_or((wish, None), |(code, rest)| (code, Some(rest)));
    let is_code =
        code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()) && code.starts_with(['4', '5']);
    let is_enhanced = |text: &str| {
        text.split('.').count() == 3 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    if !is_code || !enhanced.is_none_or(is_enhanced) {
        return None;
    }
    Some(match enhanced {
        Some(enhanced) => format!("{code} {enhanced} as the sandbox was asked"),
        None => format!("{code} as the sandbox was asked"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ask_for_their_outcome() {
        for (recipient, expected) in [
            ("ann@a.example", Script::Take),
            ("sandbox-550-5.1.1@a.example", Script::Refuse("550 5.1.1 as the sandbox was asked".into())),
            ("sandbox-451@a.example", Script::Refuse("451 as the sandbox was asked".into())),
            (
                "sandbox-dot-554-5.7.1+7@a.example",
                Script::RefuseMail("554 5.7.1 as the sandbox was asked".into()),
            ),
            ("sandbox-complaint@a.example", Script::TakeThenReport(Report::Complaint)),
            ("sandbox-lose-answer+1@a.example", Script::LoseAnswer),
            ("sandbox-250@a.example", Script::Take),
            ("sandbox-550-x@a.example", Script::Take),
            ("sandbox-@a.example", Script::Take),
        ] {
            assert_eq!(script(recipient), expected, "{recipient}");
        }
    }
}

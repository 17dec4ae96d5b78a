//! What is wrong with a template, with its variables, or with what came out, as problem documents. Places in a
//! template are pointers into its definition, places in variables begin with `/variables`.

use crate::problem::{FIELD_ERRORS_MAX, Problem};
use fantail_templates::{RenderError, VariablesError};
use fantail_wire::code::Code;
use fantail_wire::problem::FieldError;
use fantail_wire::template;

/// All of them: an author repairs a template at once.
pub fn invalid(problems: Vec<template::Problem>) -> Problem {
    let detail = match problems.len() {
        1 => "the template has a problem".to_owned(),
        count => format!("the template has {count} problems"),
    };
    let error =
        |template::Problem { pointer, code, detail }| FieldError { pointer, detail, code: Some(code) };
    Problem::new(Code::InvalidTemplate, detail).with_errors(problems.into_iter().map(error).collect())
}

impl From<VariablesError> for Problem {
    fn from(error: VariablesError) -> Self {
        let detail = error.to_string();
        let errors = match error {
            VariablesError::Invalid(faults) => faults
                .into_iter()
                .take(FIELD_ERRORS_MAX)
                .map(|fault| FieldError::new(format!("/variables{}", fault.pointer), fault.detail))
                .collect(),
            VariablesError::NotAnObject
            | VariablesError::TooLarge
            | VariablesError::TooMany
            | VariablesError::TooDeep => vec![FieldError::new("/variables", detail.clone())],
        };
        Self::new(Code::InvalidVariables, detail).with_errors(errors)
    }
}

impl From<RenderError> for Problem {
    fn from(error: RenderError) -> Self {
        let detail = error.to_string();
        match error {
            RenderError::NoChannel { .. } => Self::field("/channel", detail),
            RenderError::NoVariant { .. } => Self::field("/variant", detail),
            RenderError::NeedsUser => Self::field("/userFacts", detail),
            RenderError::TooLarge { .. } => Self::new(Code::RenderFailed, detail),
            RenderError::Missing { pointer, .. }
            | RenderError::Failed { pointer, .. }
            | RenderError::TooMuchWork { pointer }
            | RenderError::Empty { pointer }
            | RenderError::ControlCharacter { pointer }
            | RenderError::InvalidUrl { pointer, .. }
            | RenderError::InvalidJson { pointer, .. } => {
                let errors = vec![FieldError::new(pointer, detail)];
                Self::new(Code::RenderFailed, "the template could not be rendered").with_errors(errors)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_templates::VariableFault;
    use fantail_wire::template::ProblemCode;

    fn check(problem: Problem, code: Code, pointer: &str) {
        assert_eq!(problem.code, code, "{problem:?}");
        assert_eq!(problem.errors.first().map_or("", |error| error.pointer.as_str()), pointer, "{problem:?}");
    }

    // proves: API-03
    #[test]
    fn places_are_named() {
        let problem = template::Problem {
            pointer: "/channels/sms/body".into(),
            code: ProblemCode::UnknownVariable,
            detail: "x".into(),
        };
        let problem = invalid(vec![problem]);
        assert_eq!(problem.errors[0].code, Some(ProblemCode::UnknownVariable));
        check(problem, Code::InvalidTemplate, "/channels/sms/body");
        let fault = VariableFault { pointer: "/total".into(), detail: "x".into() };
        check(VariablesError::Invalid(vec![fault]).into(), Code::InvalidVariables, "/variables/total");
        check(VariablesError::TooDeep.into(), Code::InvalidVariables, "/variables");
        let channel = fantail_wire::event::Channel::Sms;
        check(RenderError::NoChannel { channel }.into(), Code::InvalidRequest, "/channel");
        check(RenderError::NoVariant { variant: 9 }.into(), Code::InvalidRequest, "/variant");
        check(RenderError::NeedsUser.into(), Code::InvalidRequest, "/userFacts");
        check(RenderError::TooLarge { bytes_max: 1 }.into(), Code::RenderFailed, "");
        let pointer = || "/channels/sms/body".to_owned();
        check(RenderError::TooMuchWork { pointer: pointer() }.into(), Code::RenderFailed, &pointer());
        check(RenderError::Empty { pointer: pointer() }.into(), Code::RenderFailed, &pointer());
    }
}

//! The variables of a template: which there are, as far as their JSON Schema says, and whether given ones are valid.
//!
//! Schemas come from tenants, so they are bounded before they are used: references stay inside the document, form no
//! circle and are counted as often as they are followed; patterns run on an engine without backtracking.

use crate::engine::value_of;
use crate::limits::{
    SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX, VARIABLE_FAULTS_MAX, VARIABLES_BYTES_MAX,
    VARIABLES_DEPTH_MAX, VARIABLES_NODES_MAX,
};
use crate::problems::{Problems, below};
use fantail_wire::template::ProblemCode;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// Names that the platform gives a value to.
pub const RESERVED: &[&str] = &["user", "notification", "tenant", "loop", "self", "range", "super"];

/// One compiled regular expression.
const PATTERN_BYTES_MAX: usize = 256 << 10;

const REFUSED: &[&str] =
    &["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"];

#[derive(Debug)]
pub struct Schema {
    document: Value,
    /// `None` if the definition has no schema: then any variables are valid and none can be used.
    validator: Option<Validator>,
}

impl Schema {
    /// `None` after adding at least one problem.
    pub fn compile(schema: Option<&Map<String, Value>>, problems: &mut Problems) -> Option<Self> {
        const AT: &str = "/schema";
        let Some(schema) = schema else {
            return Some(Self { document: Value::Bool(false), validator: None });
        };
        let before = problems.count();
        let document = Value::Object(schema.clone());
        if document.to_string().len() > SCHEMA_BYTES_MAX {
            problems.add(AT, ProblemCode::TooLarge, format!("must have at most {SCHEMA_BYTES_MAX} bytes"));
            return None;
        }
        if document.get("type").is_some_and(|kind| kind != "object") {
            problems.add("/schema/type", ProblemCode::InvalidSchema, "variables are an object");
        }
        for name in document.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if RESERVED.contains(&name.as_str()) {
                let detail = format!("{name} is a built-in name");
                problems.add(&below("/schema/properties", name), ProblemCode::ReservedVariable, detail);
            }
        }
        let mut visit = Visit { document: &document, nodes: 0, trail: Vec::new() };
        if let Err(detail) = visit.schema(&document, 0) {
            problems.add(AT, ProblemCode::InvalidSchema, detail);
            return None;
        }
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX));
        match options.build(&document) {
            Ok(validator) if problems.count() == before => {
                Some(Self { document, validator: Some(validator) })
            }
            Ok(_) => None,
            Err(error) => {
                let at = format!("{AT}{}", error.instance_path());
                problems.add(&at, ProblemCode::InvalidSchema, error.to_string());
                None
            }
        }
    }

    /// A variable of the root.
    pub fn variable(&self, name: &str) -> Member<'_> {
        self.member(&self.document, name)
    }

    /// What the schema says of a property below `node`.
    pub fn member<'s>(&'s self, node: &'s Value, name: &str) -> Member<'s> {
        match self.lookup(node, name, 0) {
            Said::Known(node) => Member::Known(node),
            Said::Open | Said::Nothing => Member::Open,
            Said::Missing => Member::Missing,
        }
    }

    /// What the schema says of the elements of `node`.
    pub fn item<'s>(&'s self, node: &'s Value) -> Member<'s> {
        match self.resolve(node).get("items") {
            Some(items @ Value::Object(_)) => Member::Known(items),
            _ => Member::Open,
        }
    }

    /// Whether only numbers are valid at `node`.
    pub fn is_number(&self, node: &Value) -> bool {
        let numeric = |kind: &Value| matches!(kind.as_str(), Some("number" | "integer"));
        match self.resolve(node).get("type") {
            Some(Value::Array(kinds)) => !kinds.is_empty() && kinds.iter().all(numeric),
            Some(kind) => numeric(kind),
            None => false,
        }
    }

    fn lookup<'s>(&'s self, node: &'s Value, name: &str, depth: usize) -> Said<'s> {
        let node = self.resolve(node);
        let fields = match node {
            Value::Object(fields) if depth <= SCHEMA_DEPTH_MAX => fields,
            Value::Bool(false) => return Said::Missing,
            _ => return Said::Open,
        };
        let mut said = own(fields, name);
        for word in ["allOf", "anyOf", "oneOf"] {
            for part in fields.get(word).and_then(Value::as_array).into_iter().flatten() {
                said = said.and(self.lookup(part, name, depth + 1));
            }
        }
        for word in ["then", "else"] {
            if let Some(part) = fields.get(word) {
                said = said.and(self.lookup(part, name, depth + 1));
            }
        }
        said
    }

    /// Follows references; they end, because circles were refused.
    fn resolve<'s>(&'s self, node: &'s Value) -> &'s Value {
        let mut node = node;
        while let Some(target) =
            node.get("$ref").and_then(Value::as_str).and_then(|to| find(&self.document, to))
        {
            node = target;
        }
        node
    }

    /// Checks the variables of a request, once for all of its channels and recipients.
    pub fn check(&self, variables: &Value) -> Result<Variables, VariablesError> {
        if !variables.is_object() {
            return Err(VariablesError::NotAnObject);
        }
        let mut size = Size::default();
        size.add(variables, 0)?;
        if let Some(validator) = self.validator.as_ref().filter(|validator| !validator.is_valid(variables)) {
            let fault = |error: jsonschema::ValidationError<'_>| VariableFault {
                pointer: error.instance_path().to_string(),
                // Values may be personal, and answers are logged.
                detail: error.masked().to_string(),
            };
            let faults = validator.iter_errors(variables).take(VARIABLE_FAULTS_MAX).map(fault).collect();
            return Err(VariablesError::Invalid(faults));
        }
        Ok(Variables(value_of(variables)))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Member<'s> {
    Known(&'s Value),
    /// The schema does not say, or allows any.
    Open,
    /// The schema lists what there is, and this is not in it.
    Missing,
}

/// Variables that were valid for their template.
#[derive(Clone, Debug)]
pub struct Variables(pub(crate) minijinja::Value);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VariablesError {
    #[error("variables must be an object")]
    NotAnObject,
    #[error("variables have more than {VARIABLES_BYTES_MAX} bytes")]
    TooLarge,
    #[error("variables have more than {VARIABLES_NODES_MAX} values")]
    TooMany,
    #[error("variables are nested deeper than {VARIABLES_DEPTH_MAX}")]
    TooDeep,
    #[error("{} variables are invalid", .0.len())]
    Invalid(Vec<VariableFault>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableFault {
    /// A JSON pointer into the variables.
    pub pointer: String,
    pub detail: String,
}

/// What a part of the schema says about a name.
enum Said<'s> {
    Known(&'s Value),
    Open,
    Missing,
    Nothing,
}

impl<'s> Said<'s> {
    /// The more telling of two. A name known to two parts has no single description.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(_), Self::Known(_)) => Self::Open,
            (Self::Known(node), _) | (_, Self::Known(node)) => Self::Known(node),
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Missing, _) | (_, Self::Missing) => Self::Missing,
            (Self::Nothing, Self::Nothing) => Self::Nothing,
        }
    }
}

fn own<'s>(fields: &'s Map<String, Value>, name: &str) -> Said<'s> {
    let properties = fields.get("properties").and_then(Value::as_object);
    if let Some(node) = properties.and_then(|properties| properties.get(name)) {
        return Said::Known(node);
    }
    match fields.get("additionalProperties") {
        Some(Value::Bool(false)) => return Said::Missing,
        Some(_) => return Said::Open,
        None => {}
    }
    if fields.contains_key("patternProperties") {
        return Said::Open;
    }
    let is_object = match fields.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if properties.is_some() || !is_object { Said::Missing } else { Said::Nothing }
}

fn find<'s>(document: &'s Value, reference: &str) -> Option<&'s Value> {
    document.pointer(reference.strip_prefix('#')?)
}

/// Walks a schema as validation would, with references followed.
struct Visit<'s> {
    document: &'s Value,
    nodes: usize,
    trail: Vec<&'s str>,
}

impl<'s> Visit<'s> {
    fn schema(&mut self, node: &'s Value, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > SCHEMA_NODES_MAX {
            return Err(format!("has more than {SCHEMA_NODES_MAX} parts, references followed"));
        }
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("is nested deeper than {SCHEMA_DEPTH_MAX}"));
        }
        let Value::Object(fields) = node else { return Ok(()) };
        for (word, value) in fields {
            match word.as_str() {
                "$ref" => self.reference(value, depth)?,
                "properties" | "patternProperties" | "dependentSchemas" => {
                    for part in value.as_object().into_iter().flat_map(Map::values) {
                        self.schema(part, depth + 1)?;
                    }
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.each(value, depth)?,
                "items"
                | "additionalProperties"
                | "additionalItems"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties" => {
                    if value.is_array() {
                        self.each(value, depth)?
                    } else {
                        self.schema(value, depth + 1)?
                    }
                }
                refused if REFUSED.contains(&refused) => return Err(format!("{refused} is not allowed")),
                _ => {}
            }
        }
        Ok(())
    }

    fn each(&mut self, values: &'s Value, depth: usize) -> Result<(), String> {
        for part in values.as_array().into_iter().flatten() {
            self.schema(part, depth + 1)?;
        }
        Ok(())
    }

    fn reference(&mut self, value: &'s Value, depth: usize) -> Result<(), String> {
        let to = value.as_str().ok_or("$ref must be a string")?;
        let inside = to.starts_with("#/").then(|| find(self.document, to)).flatten();
        let target = inside.ok_or_else(|| format!("$ref {to} does not name a place in this schema"))?;
        if self.trail.contains(&to) {
            return Err(format!("$ref {to} leads back to itself"));
        }
        self.trail.push(to);
        self.schema(target, depth + 1)?;
        self.trail.pop();
        Ok(())
    }
}

#[derive(Default)]
struct Size {
    bytes: usize,
    nodes: usize,
}

impl Size {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), VariablesError> {
        self.nodes += 1;
        self.bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 8,
        };
        if depth > VARIABLES_DEPTH_MAX {
            return Err(VariablesError::TooDeep);
        }
        if self.nodes > VARIABLES_NODES_MAX {
            return Err(VariablesError::TooMany);
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1))?,
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.bytes += name.len() + 4;
                    self.add(value, depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if self.bytes > VARIABLES_BYTES_MAX { Err(VariablesError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

//! Expressions: which variable each one names, and what is known of its value. Multiplication wants numbers, because it
//! repeats strings; only listed filters, tests and functions exist.

use super::{Shape, Term, Walker};
use crate::filters::{self, Gives};
use crate::schema::Member;
use fantail_wire::template::ProblemCode;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{BinOp, BinOpKind, Call, CallArg, Expr, Filter, Spanned};

/// Tests that exist: those of the engine that look at one value.
pub const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

const LOOP_NUMBERS: &[&str] = &["index", "index0", "revindex", "revindex0", "length", "depth", "depth0"];

impl<'w, 's, 'a> Walker<'w, 's, 'a> {
    pub(super) fn expression(&mut self, expr: &'w Expr<'a>) -> Term<'s> {
        if !self.step(expr.span()) {
            return Term::any(1);
        }
        match expr {
            Expr::Const(constant) if constant.value.is_number() => Term::of(Shape::Number),
            Expr::Const(constant) if constant.value.as_str().is_some() => Term::of(Shape::Text),
            Expr::Const(_) => Term::any(1),
            Expr::Var(var) => self.variable(var.id, var.span()),
            Expr::GetAttr(get) => {
                let base = self.expression(&get.expr);
                self.member_of(base, get.name, get.span(), &get.expr)
            }
            Expr::GetItem(get) => {
                let base = self.expression(&get.expr);
                if let Expr::Const(key) = &get.subscript_expr
                    && let Some(name) = key.value.as_str()
                {
                    return self.member_of(base, name, get.span(), &get.expr);
                }
                let key = self.expression(&get.subscript_expr);
                if key.shape == Shape::Number { self.item_of(base) } else { Term::any(base.growth) }
            }
            Expr::Slice(slice) => {
                let base = self.expression(&slice.expr);
                for bound in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.expression(bound);
                }
                base
            }
            Expr::UnaryOp(operation) => {
                self.expression(&operation.expr);
                Term::of(Shape::Number)
            }
            Expr::BinOp(operation) => self.operation(operation),
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                for other in &compare.ops {
                    self.expression(&other.expr);
                }
                Term::any(1)
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr);
                let one = self.expression(&choice.true_expr);
                let other = choice.false_expr.as_ref().map(|expr| self.expression(expr));
                either(one, other.unwrap_or(Term::any(1)))
            }
            Expr::Filter(filter) => self.filter(filter),
            Expr::Test(test) => {
                if !TESTS.contains(&test.name) {
                    self.problem(
                        test.span(),
                        ProblemCode::UnknownTest,
                        format!("there is no test {}", test.name),
                    );
                }
                self.expression(&test.expr);
                self.arguments(&test.args, test.span());
                Term::any(1)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.collection(list.items.iter(), list.span()),
            Expr::Tuple(tuple) => self.collection(tuple.items.iter(), tuple.span()),
            Expr::Map(map) => self.collection(map.keys.iter().chain(&map.values), map.span()),
        }
    }

    fn variable(&mut self, name: &str, span: Span) -> Term<'s> {
        if let Some(term) = self.frames.iter().rev().find_map(|frame| frame.get(name)) {
            return *term;
        }
        match name {
            "user" => {
                self.uses.user = true;
                return Term::of(Shape::User);
            }
            "notification" => {
                self.uses.notification = true;
                return Term::of(Shape::Notification);
            }
            "tenant" => {
                self.uses.tenant = true;
                return Term::of(Shape::Tenant);
            }
            _ => {}
        }
        let schema = self.schema;
        match schema.variable(name) {
            Member::Known(node) => Term::of(Shape::Schema(node)),
            Member::Open => Term::any(1),
            Member::Missing => self.unknown(name, span),
        }
    }

    fn member_of(&mut self, base: Term<'s>, name: &str, span: Span, of: &Expr<'_>) -> Term<'s> {
        let schema = self.schema;
        let found = match base.shape {
            Shape::Any => Some(Shape::Any),
            Shape::Schema(node) => match schema.member(node, name) {
                Member::Known(node) => Some(Shape::Schema(node)),
                Member::Open => Some(Shape::Any),
                Member::Missing => None,
            },
            Shape::User => match name {
                "id" | "locale" | "zone" => Some(Shape::Text),
                "attributes" => Some(Shape::Any),
                _ => None,
            },
            Shape::Notification => match name {
                "id" | "category" => Some(Shape::Text),
                "at" => Some(Shape::Number),
                _ => None,
            },
            Shape::Tenant => matches!(name, "id" | "name").then_some(Shape::Text),
            Shape::Loop if LOOP_NUMBERS.contains(&name) => Some(Shape::Number),
            Shape::Loop => matches!(name, "first" | "last").then_some(Shape::Any),
            Shape::Number | Shape::Text | Shape::Numbers => None,
        };
        match found {
            Some(shape) => Term { shape, growth: base.growth },
            None => self.unknown(&format!("{}.{name}", path(of)), span),
        }
    }

    pub(super) fn item_of(&mut self, list: Term<'s>) -> Term<'s> {
        let schema = self.schema;
        let shape = match list.shape {
            Shape::Numbers => Shape::Number,
            Shape::Schema(node) => match schema.item(node) {
                Member::Known(node) => Shape::Schema(node),
                Member::Open | Member::Missing => Shape::Any,
            },
            Shape::Any
            | Shape::Number
            | Shape::Text
            | Shape::User
            | Shape::Notification
            | Shape::Tenant
            | Shape::Loop => Shape::Any,
        };
        Term { shape, growth: list.growth }
    }

    fn unknown(&mut self, path: &str, span: Span) -> Term<'s> {
        self.problem(span, ProblemCode::UnknownVariable, format!("the schema has no variable {path}"));
        Term::any(1)
    }

    fn is_number(&self, term: Term<'s>) -> bool {
        match term.shape {
            Shape::Number => true,
            Shape::Schema(node) => self.schema.is_number(node),
            Shape::Any
            | Shape::Text
            | Shape::Numbers
            | Shape::User
            | Shape::Notification
            | Shape::Tenant
            | Shape::Loop => false,
        }
    }

    fn operation(&mut self, operation: &'w Spanned<BinOp<'a>>) -> Term<'s> {
        let left = self.expression(&operation.left);
        let right = self.expression(&operation.right);
        let numbers = self.is_number(left) && self.is_number(right);
        let growth = left.growth.saturating_add(right.growth);
        match operation.op {
            BinOpKind::Add if numbers => Term::of(Shape::Number),
            BinOpKind::Add => self.grown(operation.span(), Term::any(growth)),
            BinOpKind::Concat => self.grown(operation.span(), Term { shape: Shape::Text, growth }),
            BinOpKind::Mul => {
                if !numbers {
                    let detail = "* needs numbers on both sides: use |int or |float";
                    self.problem(operation.span(), ProblemCode::NotAllowed, detail);
                }
                Term::of(Shape::Number)
            }
            BinOpKind::Sub | BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem | BinOpKind::Pow => {
                Term::of(Shape::Number)
            }
            BinOpKind::ScAnd | BinOpKind::ScOr => either(left, right),
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => Term::any(1),
        }
    }

    fn collection(&mut self, items: impl Iterator<Item = &'w Expr<'a>>, span: Span) -> Term<'s> {
        // A short list of constants is not larger than the source it is written in.
        let mut growth: u32 = 1;
        for item in items {
            let constant = matches!(item, Expr::Const(_));
            let term = self.expression(item);
            if !constant {
                growth = growth.saturating_add(term.growth);
            }
        }
        self.grown(span, Term::any(growth))
    }

    fn call(&mut self, call: &'w Spanned<Call<'a>>) -> Term<'s> {
        self.arguments(&call.args, call.span());
        match &call.expr {
            Expr::Var(var) if var.id == "range" => Term::of(Shape::Numbers),
            Expr::GetAttr(get)
                if get.name == "cycle" && matches!(&get.expr, Expr::Var(var) if var.id == "loop") =>
            {
                Term::any(1)
            }
            other => {
                let detail = format!("{} is not available", path(other));
                self.problem(call.span(), ProblemCode::UnknownFunction, detail);
                Term::any(1)
            }
        }
    }

    fn filter(&mut self, filter: &'w Spanned<Filter<'a>>) -> Term<'s> {
        let span = filter.span();
        let input = filter.expr.as_ref().map_or(Term::any(1), |expr| self.expression(expr));
        let extra = self.arguments(&filter.args, span);
        let Some(known) = filters::find(filter.name) else {
            let detail = format!("there is no filter {}", filter.name);
            self.problem(span, ProblemCode::UnknownFilter, detail);
            return Term::any(input.growth);
        };
        self.attribute_argument(filter, input);
        if known.in_zone {
            self.zone_arguments(filter);
        }
        let growth = input.growth;
        match known.gives {
            Gives::Number => Term::of(Shape::Number),
            Gives::Text => Term { shape: Shape::Text, growth },
            Gives::Same => Term { shape: input.shape, growth },
            Gives::Item => Term { growth, ..self.item_of(input) },
            Gives::Any => Term::any(growth),
            Gives::Either => Term { shape: Shape::Any, growth: growth.max(extra) },
        }
    }

    /// The growth of the largest argument.
    fn arguments(&mut self, arguments: &'w [CallArg<'a>], span: Span) -> u32 {
        let mut growth = 1;
        for argument in arguments {
            match argument {
                CallArg::Pos(value) | CallArg::Kwarg(_, value) => {
                    growth = growth.max(self.expression(value).growth);
                }
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => self.refuse(span, "spreading arguments"),
            }
        }
        growth
    }

    /// `attribute=` of list filters names a member of each item.
    fn attribute_argument(&mut self, filter: &'w Spanned<Filter<'a>>, input: Term<'s>) {
        let span = filter.span();
        let mut named = false;
        for argument in &filter.args {
            match argument {
                CallArg::Kwarg("attribute", Expr::Const(name)) if name.value.as_str().is_some() => {
                    named = true;
                    let list = filter.expr.as_ref();
                    let mut item = self.item_of(input);
                    for name in name.value.as_str().into_iter().flat_map(|path| path.split('.')) {
                        if let Some(list) = list {
                            item = self.member_of(item, name, span, list);
                        }
                    }
                }
                CallArg::Kwarg("attribute", _) => self.refuse(span, "a computed attribute"),
                CallArg::Pos(_) if filter.name == "map" => {
                    self.refuse(span, "map with anything but attribute=");
                }
                CallArg::Pos(_) | CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {}
            }
        }
        if filter.name == "map" && !named {
            self.refuse(span, "map without attribute=");
        }
    }

    /// Patterns and zones are checked as far as they are written out. Without a zone the user's is needed.
    fn zone_arguments(&mut self, filter: &'w Spanned<Filter<'a>>) {
        let mut zone_given = false;
        for argument in &filter.args {
            let fault = match argument {
                CallArg::Pos(Expr::Const(pattern)) | CallArg::Kwarg("format", Expr::Const(pattern)) => {
                    pattern.value.as_str().and_then(filters::pattern_fault)
                }
                CallArg::Kwarg("zone", zone) => {
                    zone_given = true;
                    let literal = match zone {
                        Expr::Const(name) => name.value.as_str(),
                        _ => None,
                    };
                    literal.and_then(filters::zone_fault)
                }
                CallArg::Pos(_) | CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_) => None,
            };
            if let Some(fault) = fault {
                self.problem(filter.span(), ProblemCode::InvalidFormat, fault);
            }
        }
        self.uses.zone |= !zone_given;
    }
}

fn either<'s>(one: Term<'s>, other: Term<'s>) -> Term<'s> {
    let shape = if one.shape == other.shape { one.shape } else { Shape::Any };
    Term { shape, growth: one.growth.max(other.growth) }
}

/// How an expression is named in a message.
fn path(expr: &Expr<'_>) -> String {
    match expr {
        Expr::Var(var) => var.id.to_owned(),
        Expr::GetAttr(get) => format!("{}.{}", path(&get.expr), get.name),
        Expr::GetItem(get) => format!("{}[]", path(&get.expr)),
        other => other.description().to_owned(),
    }
}

//! Walks the syntax tree of a source, with its layouts and partials, as rendering would: which variables it asks for,
//! whether the schema has them, what it needs of the user, and whether anything in it could grow without bound.
//!
//! Only what is listed here is available: statements and expressions that are not understood are refused, so that a
//! newer engine cannot open a door that nobody looked at. `expression` holds the expressions.

mod expression;

#[cfg(test)]
pub use expression::TESTS;

use crate::html::Part;
use crate::limits::{GROWTH_IN_LOOP_MAX, GROWTH_MAX, INCLUDE_DEPTH_MAX, LOOP_DEPTH_MAX, WALK_STEPS_MAX};
use crate::problems::Problems;
use crate::schema::{RESERVED, Schema};
use fantail_wire::template::ProblemCode;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{Block, Expr, ForLoop, Stmt};
use serde_json::Value;
use std::collections::BTreeMap;

/// Layouts and partials by name.
pub type Library<'a> = BTreeMap<&'a str, Tree<'a>>;

pub struct Tree<'a> {
    pub pointer: String,
    pub root: Stmt<'a>,
}

/// What a source depends on besides its variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    pub user: bool,
    /// A filter that shows times in the user's zone.
    pub zone: bool,
    pub notification: bool,
    pub tenant: bool,
}

impl Uses {
    pub fn needs_user(self) -> bool {
        self.user || self.zone
    }
}

/// What is known of a value before there is one.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape<'s> {
    Any,
    Number,
    Text,
    Numbers,
    Schema(&'s Value),
    User,
    Notification,
    Tenant,
    Loop,
}

#[derive(Clone, Copy, Debug)]
struct Term<'s> {
    shape: Shape<'s>,
    /// How many times the size of the largest input it may have.
    growth: u32,
}

impl<'s> Term<'s> {
    fn of(shape: Shape<'s>) -> Self {
        Self { shape, growth: 1 }
    }

    fn any(growth: u32) -> Self {
        Self { shape: Shape::Any, growth }
    }
}

/// Walks `tree`. `steps` counts over all sources of a definition.
pub fn walk(
    tree: &Tree<'_>,
    library: &Library<'_>,
    schema: &Schema,
    steps: &mut usize,
    problems: &mut Problems,
) -> Uses {
    let mut walker = Walker {
        schema,
        library,
        problems,
        steps,
        pointer: &tree.pointer,
        frames: vec![BTreeMap::new()],
        trail: Vec::new(),
        blocks: BTreeMap::new(),
        open_blocks: Vec::new(),
        loops: 0,
        uses: Uses::default(),
    };
    walker.statement(&tree.root);
    walker.uses
}

/// The source in the order it is written, for the reader of HTML.
pub fn parts<'a>(statement: &Stmt<'a>, out: &mut Vec<Part<'a>>) {
    let mut each = |body: &[Stmt<'a>]| body.iter().for_each(|statement| parts(statement, out));
    match statement {
        Stmt::Template(template) => each(&template.children),
        Stmt::EmitRaw(raw) => out.push(Part::Text(raw.raw)),
        Stmt::EmitExpr(emit) => out.push(Part::Variable { line: usize::from(emit.span().start_line) }),
        Stmt::Include(include) => out.push(Part::Variable { line: usize::from(include.span().start_line) }),
        Stmt::ForLoop(repeat) => {
            each(&repeat.body);
            each(&repeat.else_body);
        }
        Stmt::IfCond(branch) => {
            each(&branch.true_body);
            each(&branch.false_body);
        }
        Stmt::WithBlock(with) => each(&with.body),
        Stmt::Block(block) => each(&block.body),
        // No output, or refused by the walk.
        Stmt::Set(_)
        | Stmt::SetBlock(_)
        | Stmt::AutoEscape(_)
        | Stmt::FilterBlock(_)
        | Stmt::Import(_)
        | Stmt::FromImport(_)
        | Stmt::Extends(_)
        | Stmt::Do(_) => {}
    }
}

struct Walker<'w, 's, 'a> {
    schema: &'s Schema,
    library: &'w Library<'a>,
    problems: &'w mut Problems,
    steps: &'w mut usize,
    /// Where the statement at hand is written.
    pointer: &'w str,
    frames: Vec<BTreeMap<&'w str, Term<'s>>>,
    /// Layouts and partials that are being walked.
    trail: Vec<&'w str>,
    /// Blocks of the sources that extend the one at hand.
    blocks: BTreeMap<&'w str, Vec<(&'w str, &'w [Stmt<'a>])>>,
    open_blocks: Vec<&'w str>,
    loops: usize,
    uses: Uses,
}

impl<'w, 's, 'a> Walker<'w, 's, 'a> {
    fn problem(&mut self, span: Span, code: ProblemCode, detail: impl AsRef<str>) {
        let detail = format!("line {}: {}", span.start_line, detail.as_ref());
        self.problems.add(self.pointer, code, detail);
    }

    /// Whether to go on.
    fn step(&mut self, span: Span) -> bool {
        *self.steps += 1;
        if *self.steps == WALK_STEPS_MAX {
            self.problem(span, ProblemCode::TooComplex, "the template with all it includes is too large");
        }
        *self.steps < WALK_STEPS_MAX
    }

    fn refuse(&mut self, span: Span, what: &str) {
        self.problem(span, ProblemCode::NotAllowed, format!("{what} is not available"));
    }

    fn body(&mut self, statements: &'w [Stmt<'a>]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'w Stmt<'a>) {
        match statement {
            Stmt::Template(template) => self.template(&template.children),
            Stmt::EmitRaw(_) => {}
            Stmt::EmitExpr(emit) => self.emit(&emit.expr),
            Stmt::ForLoop(repeat) if self.step(repeat.span()) => self.for_loop(repeat, repeat.span()),
            Stmt::ForLoop(_) => {}
            Stmt::IfCond(branch) => {
                self.expression(&branch.expr);
                self.body(&branch.true_body);
                self.body(&branch.false_body);
            }
            Stmt::WithBlock(with) => {
                self.frames.push(BTreeMap::new());
                for (target, value) in &with.assignments {
                    let term = self.expression(value);
                    self.assign(target, term);
                }
                self.body(&with.body);
                self.frames.pop();
            }
            Stmt::Set(set) => {
                let term = self.expression(&set.expr);
                self.assign(&set.target, term);
            }
            Stmt::Block(block) if self.step(block.span()) => self.block(block),
            Stmt::Block(_) => {}
            // Met by `template`; elsewhere it would depend on a condition.
            Stmt::Extends(extends) => {
                self.refuse(extends.span(), "extends inside of another statement");
            }
            Stmt::Include(include) => self.follow(&include.name, include.span()),
            Stmt::SetBlock(set) => self.refuse(set.span(), "a set with a body"),
            Stmt::AutoEscape(escape) => self.refuse(escape.span(), "autoescape"),
            Stmt::FilterBlock(filter) => self.refuse(filter.span(), "a filter with a body"),
            Stmt::Import(import) => self.refuse(import.span(), "import"),
            Stmt::FromImport(import) => self.refuse(import.span(), "import"),
            Stmt::Do(call) => self.refuse(call.span(), "do"),
        }
    }

    /// A whole source. If it extends another one, its blocks are walked where that one has them.
    fn template(&mut self, children: &'w [Stmt<'a>]) {
        let extends = children.iter().find_map(|child| match child {
            Stmt::Extends(extends) => Some(extends),
            _ => None,
        });
        let Some(extends) = extends else { return self.body(children) };
        for child in children {
            match child {
                Stmt::Block(block) => {
                    self.blocks.entry(block.name).or_default().push((self.pointer, &block.body));
                }
                Stmt::Extends(other) if !std::ptr::eq(other, extends) => {
                    self.refuse(other.span(), "a second extends")
                }
                Stmt::Extends(_) => {}
                other => self.statement(other),
            }
        }
        self.follow(&extends.name, extends.span());
    }

    fn emit(&mut self, expr: &'w Expr<'a>) {
        // The parent's block is walked with the parent.
        let is_super = matches!(expr, Expr::Call(call)
            if call.args.is_empty() && matches!(&call.expr, Expr::Var(var) if var.id == "super"));
        if !is_super || self.open_blocks.is_empty() {
            self.expression(expr);
        }
    }

    fn block(&mut self, block: &'w Block<'a>) {
        if self.open_blocks.contains(&block.name) {
            return;
        }
        self.open_blocks.push(block.name);
        self.frames.push(BTreeMap::new());
        for (pointer, body) in self.blocks.get(block.name).cloned().unwrap_or_default() {
            let here = std::mem::replace(&mut self.pointer, pointer);
            self.body(body);
            self.pointer = here;
        }
        self.body(&block.body);
        self.frames.pop();
        self.open_blocks.pop();
    }

    fn follow(&mut self, name: &'w Expr<'a>, span: Span) {
        if !self.step(span) {
            return;
        }
        let name = match name {
            Expr::Const(name) => name.value.as_str(),
            _ => None,
        };
        let Some(name) = name else { return self.refuse(span, "a computed name of a layout or partial") };
        let Some((name, tree)) = self.library.get_key_value(name) else {
            return self.problem(
                span,
                ProblemCode::UnknownPartial,
                format!("there is no layout or partial {name}"),
            );
        };
        if self.trail.contains(name) {
            return self.problem(span, ProblemCode::CyclicInclude, format!("{name} leads back to itself"));
        }
        if self.trail.len() >= INCLUDE_DEPTH_MAX {
            let detail = format!("layouts and partials nest deeper than {INCLUDE_DEPTH_MAX}");
            return self.problem(span, ProblemCode::TooComplex, detail);
        }
        self.trail.push(name);
        let here = std::mem::replace(&mut self.pointer, &tree.pointer);
        self.statement(&tree.root);
        self.pointer = here;
        self.trail.pop();
    }

    fn for_loop(&mut self, repeat: &'w ForLoop<'a>, span: Span) {
        if repeat.recursive {
            self.refuse(span, "a recursive loop");
        }
        if self.loops >= LOOP_DEPTH_MAX {
            let detail = format!("loops nest deeper than {LOOP_DEPTH_MAX}");
            return self.problem(span, ProblemCode::TooComplex, detail);
        }
        let list = self.expression(&repeat.iter);
        let item = self.item_of(list);
        self.loops += 1;
        self.frames.push(BTreeMap::from([("loop", Term::of(Shape::Loop))]));
        self.assign(&repeat.target, item);
        if let Some(condition) = &repeat.filter_expr {
            self.expression(condition);
        }
        // What an iteration sets is there in the next one: what is larger after a second walk grows with each.
        self.body(&repeat.body);
        let once = self.sizes();
        self.body(&repeat.body);
        let twice = self.sizes();
        if once != twice {
            self.problem(
                span,
                ProblemCode::TooComplex,
                "a variable that is set in this loop grows with each turn",
            );
        }
        self.frames.pop();
        self.loops -= 1;
        self.body(&repeat.else_body);
    }

    fn sizes(&self) -> Vec<u32> {
        self.frames.last().into_iter().flat_map(BTreeMap::values).map(|term| term.growth).collect()
    }

    fn assign(&mut self, target: &'w Expr<'a>, term: Term<'s>) {
        match target {
            Expr::Var(var) if RESERVED.contains(&var.id) => {
                self.problem(
                    var.span(),
                    ProblemCode::ReservedVariable,
                    format!("{} is a built-in name", var.id),
                );
            }
            Expr::Var(var) => {
                let frame = self.frames.last_mut().expect("a walk begins with a frame");
                let known = frame.get(var.id).copied();
                // Set on one of two branches: what it was before is still possible.
                let term = known.map_or(term, |known| Term {
                    shape: if known.shape == term.shape { term.shape } else { Shape::Any },
                    growth: known.growth.max(term.growth),
                });
                frame.insert(var.id, term);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.assign(item, Term::any(term.growth))),
            Expr::Tuple(tuple) => {
                tuple.items.iter().for_each(|item| self.assign(item, Term::any(term.growth)))
            }
            other => self.refuse(other.span(), "setting anything but a variable"),
        }
    }

    /// A computed value of this size.
    fn grown(&mut self, span: Span, term: Term<'s>) -> Term<'s> {
        let max = if self.loops > 0 { GROWTH_IN_LOOP_MAX } else { GROWTH_MAX };
        if term.growth <= max {
            return term;
        }
        self.problem(span, ProblemCode::TooComplex, "too many values are put together into one");
        Term { growth: max, ..term }
    }
}

#[cfg(test)]
mod tests;

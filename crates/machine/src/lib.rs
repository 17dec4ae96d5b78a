//! The deterministic machines. Each owns a partition's tables: `plan` decides over current state what the facts
//! are, `apply` folds facts into tables with arithmetic only. No clock, no randomness, no IO, no other partition:
//! whatever depends on those is in the ask or in the record.
//!
//! Reading order: bytes (`codec`, `parcel`), facts (`records`), state (`tables` and `columns`, seen through `view`), then
//! the machines in the order an event meets them: `root`, `front`, `shard`; and `directory`, which knows whose an
//! address is. `books` recounts what is kept about deliveries, `wipe` removes a tenant that is deleted.

pub mod codec;
pub mod parcel;
pub mod records;

pub mod columns;
pub mod tables;
pub mod view;

pub mod directory;
pub mod front;
pub mod root;
pub mod shard;

pub mod books;
pub mod wipe;

/// What a machine decided: the facts to append, and what to tell the caller once they (and everything that was
/// decided before) are durable.
#[derive(Debug)]
pub struct Planned<R, A> {
    pub records: Vec<R>,
    pub answer: A,
}

impl<R, A> Planned<R, A> {
    #[must_use]
    pub fn nothing(answer: A) -> Self {
        Self { records: Vec::new(), answer }
    }

    #[must_use]
    pub fn one(record: R, answer: A) -> Self {
        Self { records: vec![record], answer }
    }
}

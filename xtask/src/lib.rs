//! The house rules as programs. `tidy` holds how the code is written, `contract` holds what the tests prove.
//! Both are plain functions over the files of the repository, so that a command and a test run the same code.
//!
//! Reading order: `repo` finds the files, `source` tells code from comments and strings, then the two programs.

pub mod repo;
pub mod source;

pub mod tidy;

pub mod contract;

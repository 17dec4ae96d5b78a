//! The house rules as programs. `tidy` holds how the code is written, `contract` holds what the tests prove,
//! `fixes` which findings of reviews have a test. All are plain functions over the files of the repository, so that a command and a test run the same code.
//!
//! Reading order: `repo` finds the files, `source` tells code from comments and strings, `claims` finds what tests claim,
//! then the three programs.

pub mod repo;
pub mod source;

pub mod tidy;

pub mod claims;
pub mod contract;
pub mod fixes;

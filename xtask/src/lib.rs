//! The house rules as programs. `tidy` holds how the code is written, `contract` holds what the tests prove,
//! `fixes` which findings of reviews have a test, `sbom` lists what the binary is made of. All are plain functions over the files of
//! the repository, so that a command and a test run the same code.
//!
//! Reading order: `repo` finds the files, `source` tells code from comments and strings, `packages` knows what is built, `claims`
//! finds what tests claim, then the programs.

pub mod repo;
pub mod source;

pub mod packages;
pub mod spdx;

pub mod tidy;

pub mod claims;
pub mod contract;
pub mod fixes;

pub mod sbom;

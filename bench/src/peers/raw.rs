//! The floor of fat rows: their bytes, appended to one file, and one fsync per batch. No store that writes such
//! rows can be faster.

use super::Turn;
use crate::index::Meter;
use crate::index::job::answer;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Raw {
    pub directory: PathBuf,
    pub rows: u64,
    pub rows_per_batch: u64,
    pub row_bytes: usize,
    pub limit_ms: u64,
}

impl Raw {
    pub fn work(&self) -> Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let mut file = File::create(self.directory.join("rows"))?;
        let batch = vec![0x5a; self.rows_per_batch as usize * self.row_bytes];
        let (meter, began) = (Meter::begin()?, Instant::now());
        let mut rows = 0;
        while rows < self.rows && began.elapsed() < Duration::from_millis(self.limit_ms) {
            file.write_all(&batch)?;
            file.sync_data()?;
            rows += self.rows_per_batch;
        }
        let spent = meter.spent()?;
        answer(&Turn {
            rows: rows as f64,
            seconds: spent.seconds,
            cpu_seconds: spent.cpu_seconds,
            bytes: Some((rows * self.row_bytes as u64) as f64),
        });
        Ok(())
    }
}

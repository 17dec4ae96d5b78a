//! Embedded stores with one small row per entry: user and event as the key, eight bytes of value. One batch per
//! event, fsynced; or, for sorted ingestion, runs of sorted rows.

use super::{Turn, Work};
use crate::index::Meter;
use crate::index::job::answer;
use crate::process;
use anyhow::{Result, ensure};
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use redb::{ReadableDatabase, ReadableTableMetadata, TableDefinition};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rows that are sorted in memory and ingested at once.
const RUN_ROWS: usize = 2_000_000;
const CACHE_BYTES: u64 = 256 << 20;
const TABLE: TableDefinition<(u64, u64), u64> = TableDefinition::new("inbox");

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Embedded {
    pub directory: PathBuf,
    pub store: Store,
    pub work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Store {
    FjallRows,
    FjallIngest,
    Redb,
}

impl Embedded {
    pub fn work(&self) -> Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let lists = self.work.lists();
        let turn = match self.store {
            Store::FjallRows => self.fjall_rows(&lists),
            Store::FjallIngest => self.fjall_ingest(&lists),
            Store::Redb => self.redb(&lists),
        };
        answer(&Turn { bytes: Some(process::disk_bytes(&self.directory) as f64), ..turn? });
        Ok(())
    }

    fn goes_on(&self, began: Instant, event: u64) -> bool {
        event < self.work.events && began.elapsed() < Duration::from_millis(self.work.limit_ms)
    }

    fn fjall_rows(&self, lists: &[Vec<u64>]) -> Result<Turn> {
        let database = Database::builder(&self.directory).cache_size(CACHE_BYTES).open()?;
        let inbox = database.keyspace("inbox", KeyspaceCreateOptions::default)?;
        let (meter, began) = (Meter::begin()?, Instant::now());
        let (mut event, mut rows) = (0, 0);
        while self.goes_on(began, event) {
            let mut batch = database.batch();
            for user in &lists[event as usize % lists.len()] {
                batch.insert(&inbox, key(*user, event), event.to_be_bytes());
                rows += 1;
            }
            batch.commit()?;
            database.persist(PersistMode::SyncData)?;
            event += 1;
        }
        let turn = Turn::new(rows, &meter.spent()?);
        let found = inbox.len()? as u64;
        ensure!(found == rows, "fjall has {found} rows instead of {rows}");
        Ok(turn)
    }

    fn fjall_ingest(&self, lists: &[Vec<u64>]) -> Result<Turn> {
        let database = Database::builder(&self.directory).cache_size(CACHE_BYTES).open()?;
        let inbox = database.keyspace("inbox", KeyspaceCreateOptions::default)?;
        let (meter, began) = (Meter::begin()?, Instant::now());
        let (mut event, mut rows, mut run) = (0, 0, Vec::with_capacity(RUN_ROWS));
        while self.goes_on(began, event) {
            while event < self.work.events && run.len() < RUN_ROWS {
                run.extend(lists[event as usize % lists.len()].iter().map(|user| (*user, event)));
                event += 1;
            }
            run.sort_unstable();
            let mut ingestion = inbox.start_ingestion()?;
            for (user, event) in &run {
                ingestion.write(key(*user, *event), event.to_be_bytes())?;
            }
            ingestion.finish()?;
            rows += run.len() as u64;
            run.clear();
        }
        let turn = Turn::new(rows, &meter.spent()?);
        let found = inbox.len()? as u64;
        ensure!(found == rows, "fjall has {found} rows instead of {rows}");
        Ok(turn)
    }

    fn redb(&self, lists: &[Vec<u64>]) -> Result<Turn> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_BYTES as usize);
        let database = builder.create(self.directory.join("inbox.redb"))?;
        let (meter, began) = (Meter::begin()?, Instant::now());
        let (mut event, mut rows) = (0, 0);
        while self.goes_on(began, event) {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(TABLE)?;
                for user in &lists[event as usize % lists.len()] {
                    table.insert((*user, event), event)?;
                    rows += 1;
                }
            }
            transaction.commit()?;
            event += 1;
        }
        let turn = Turn::new(rows, &meter.spent()?);
        let found = database.begin_read()?.open_table(TABLE)?.len()?;
        ensure!(found == rows, "redb has {found} rows instead of {rows}");
        Ok(turn)
    }
}

fn key(user: u64, event: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&user.to_be_bytes());
    key[8..].copy_from_slice(&event.to_be_bytes());
    key
}

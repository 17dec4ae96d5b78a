//! Copies of the whole index for snapshots, piece by piece, and the way back.

use super::manifest::Manifest;
use super::run::{damage, io_error};
use super::{InboxIndex, Runs, is_file_of_index, manifest_file, run_file};
use crate::disk::{How, read_full_at, write_all_at};
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, PartitionId, TenantId};
use std::collections::BTreeMap;
use std::io;

/// Bytes of a file in one piece.
const PIECE_BYTES: usize = 128 << 10;

/// Some bytes of a file; they follow those of the piece before, if that is of the same file.
pub struct Piece {
    pub file: String,
    pub bytes: Vec<u8>,
}

/// One state of the index. Holds its runs open, so that merging cannot take them away.
pub struct IndexCopy(Vec<(PartitionId, BTreeMap<TenantId, Arrival>, Runs)>);

impl IndexCopy {
    pub fn pieces(&self) -> impl Iterator<Item = io::Result<Piece>> {
        let runs =
            self.0.iter().flat_map(|(partition, _, runs)| runs.iter().map(move |run| (*partition, run)));
        runs.flat_map(|(partition, run)| {
            (0..run.name.bytes).step_by(PIECE_BYTES).map(move |from| {
                let mut bytes = vec![0; PIECE_BYTES.min((run.name.bytes - from) as usize)];
                let read = read_full_at(run.file(), from, &mut bytes)?;
                if read < bytes.len() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(Piece { file: run_file(partition, run.name.number), bytes })
            })
        })
    }

    pub fn manifests(&self) -> impl Iterator<Item = Piece> {
        self.0.iter().map(|(partition, through, runs)| {
            let runs = runs.iter().map(|run| run.name).collect();
            let manifest = Manifest { through: through.clone(), runs };
            Piece { file: manifest_file(*partition), bytes: manifest.encode() }
        })
    }
}

impl InboxIndex {
    pub fn copy(&self) -> IndexCopy {
        let state = |partition| {
            let standing = self.at(partition);
            (partition, standing.through, standing.runs)
        };
        IndexCopy(self.partitions().into_iter().map(state).collect())
    }

    /// Removes everything, the manifests first. What is derived is made again by whoever asks.
    pub fn clear(&self) -> Result<(), StoreError> {
        let names = self.names()?;
        let (manifests, runs): (Vec<_>, Vec<_>) =
            names.iter().filter(|name| is_file_of_index(name)).partition(|name| name.ends_with(".manifest"));
        for name in manifests.into_iter().chain(runs) {
            let path = self.directory.join(name);
            self.disk.remove(&path).map_err(|cause| io_error(&path, &cause))?;
        }
        self.disk.sync_dir(&self.directory).map_err(|cause| io_error(&self.directory, &cause))?;
        self.load()
    }

    /// Writes the files of a copy and opens them. Whoever asks makes sure that a crash in between is noticed.
    pub fn fill(&self, pieces: impl Iterator<Item = Piece>) -> Result<(), StoreError> {
        let mut current = None;
        for piece in pieces {
            let path = self.directory.join(&piece.file);
            if !is_file_of_index(&piece.file) {
                return Err(damage(&path, 0, "is no file of an index"));
            }
            let failed = |cause: io::Error| io_error(&path, &cause);
            let is_next = matches!(&current, Some((file, _, _)) if *file == piece.file);
            if !is_next {
                let file = self.disk.open(&path, How::Create).map_err(failed)?;
                if let Some((_, whole, _)) = current.replace((piece.file, file, 0)) {
                    whole.sync_data().map_err(failed)?;
                }
            }
            if let Some((_, file, written)) = &mut current {
                write_all_at(&**file, *written, &piece.bytes).map_err(failed)?;
                *written += piece.bytes.len() as u64;
            }
        }
        if let Some((_, whole, _)) = current {
            whole.sync_data().map_err(|cause| io_error(&self.directory, &cause))?;
        }
        self.disk.sync_dir(&self.directory).map_err(|cause| io_error(&self.directory, &cause))?;
        self.load()
    }
}

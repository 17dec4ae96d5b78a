//! The files that belong to the repository: tracked ones and new ones that are not ignored.
//!
//! Git knows best. Without git (a source archive) the directory is walked and what is built or generated is left
//! out by name.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that hold results, not sources; only needed where git cannot be asked.
const GENERATED: &[&str] = &[".git", "target", "node_modules", "fantail-data", "results", "dist"];

pub struct Repo {
    root: PathBuf,
    /// Paths relative to the root, with `/`, ascending.
    paths: Vec<String>,
}

impl Repo {
    /// The repository that this program was built from.
    pub fn here() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self::open(manifest.parent().context("the manifest directory has no parent")?)
    }

    pub fn open(root: &Path) -> Result<Self> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        paths.retain(|path| root.join(path).is_file());
        paths.sort();
        paths.dedup();
        ensure!(!paths.is_empty(), "no files under {}", root.display());
        Ok(Self { root: root.to_path_buf(), paths })
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.paths.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
    }

    /// The text of a file; `None` if it is not UTF-8 and so no text of ours.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let bytes = std::fs::read(self.root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(String::from_utf8(bytes).ok())
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = listing.split('\0').filter(|path| !path.is_empty()).map(String::from).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let entries =
            std::fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !GENERATED.contains(&name.as_str()) {
                    waiting.push(path);
                }
            } else if let Ok(relative) = path.strip_prefix(root) {
                found.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_and_git_agree_on_the_sources() {
        let repo = Repo::here().expect("this repository opens");
        let walked = walked(&repo.root).expect("this repository can be walked");
        let missed: Vec<&str> = repo
            .paths()
            .filter(|path| path.ends_with(".rs") && !walked.iter().any(|other| other == path))
            .collect();
        assert_eq!(missed, Vec::<&str>::new());
        assert!(repo.contains("xtask/src/repo.rs"));
        assert!(!repo.contains("xtask/src/absent.rs"));
    }
}

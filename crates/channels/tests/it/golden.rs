//! What a payload looks like, as files: `tests/golden/<provider>/<name>.json` has the content, the terms and the payload.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Compares the payload that `make` gives for each file with the one in the file.
pub fn check_all(provider: &str, make: impl Fn(&Value) -> Value) {
    let files = files(provider);
    assert!(!files.is_empty(), "there are golden files of {provider}");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let case: Value = serde_json::from_str(&text).expect("JSON");
        let payload = make(&case);
        assert_eq!(payload, case["payload"], "{}: it now is\n{payload:#}", path.display());
    }
}

fn files(provider: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(provider);
    let entries = std::fs::read_dir(folder).expect("the folder of the golden files");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}

//! `cargo xtask sbom`: what is inside the `fantail` binary of a target, as CycloneDX JSON.
//!
//! The same Cargo.lock gives the same bytes: no time, no random number, everything in order.

use crate::packages::{Package, Packages};
use crate::repo::Repo;
use crate::spdx;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The crate that the binary is built from.
const BINARY: &str = "fantail-server";

pub fn write(repo: &Repo, target: &str) -> Result<String> {
    let packages = Packages::of_target(repo.root(), target)?;
    let lock = repo.text("Cargo.lock")?.context("Cargo.lock is text")?;
    let mut text = serde_json::to_string_pretty(&bill(&packages, &checksums(&lock)?)?)?;
    text.push('\n');
    Ok(text)
}

/// The hash of each package that the lock file has, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let table: toml::Table = lock.parse().context("Cargo.lock is not TOML")?;
    let packages =
        table.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no package")?;
    let text =
        |package: &toml::Value, name: &str| package.get(name).and_then(toml::Value::as_str).map(String::from);
    let one =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(one).collect())
}

fn bill(packages: &Packages, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let binary = packages.all.iter().find(|(_, package)| package.name == BINARY);
    let (root, binary) = binary.with_context(|| format!("{BINARY} is not in the workspace"))?;
    let mut inside = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if inside.insert(id) {
            waiting.extend(&packages.all[id].parts);
        }
    }
    let mut parts: Vec<&Package> = inside.iter().map(|id| &packages.all[*id]).collect();
    parts.sort_by_key(|package| (&package.name, &package.version));
    let components: Vec<Value> =
        parts.iter().filter(|part| part.name != BINARY).map(|part| component(part, checksums)).collect();
    let dependencies: Vec<Value> = parts
        .iter()
        .map(|part| {
            let mut on: Vec<String> = part.parts.iter().map(|id| purl(&packages.all[id])).collect();
            on.sort();
            json!({"ref": purl(part), "dependsOn": on})
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": purl(binary), "name": "fantail",
            "version": binary.version, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": "library", "bom-ref": purl(package), "name": package.name, "version": package.version,
        "purl": purl(package),
    });
    if let Some(license) = &package.license {
        component["licenses"] = json!([{"expression": spdx::modern(license)}]);
    }
    if let Some(hash) = checksums.get(&(package.name.clone(), package.version.clone())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": hash}]);
    }
    component
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::metadata;

    // fixes: security M13
    #[test]
    fn a_bill_lists_what_is_inside_with_licence_and_hash() {
        let mut metadata = metadata(&["with-b"]);
        metadata["packages"][0]["name"] = json!(BINARY);
        let packages = Packages::read(&metadata).expect("it is well formed");
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nchecksum = \"abc\"\n";
        let bill = bill(&packages, &checksums(lock).expect("TOML")).expect("a bill");
        assert_eq!(bill["metadata"]["component"]["name"], "fantail");
        let components = bill["components"].as_array().expect("components");
        assert_eq!(components.len(), 2);
        assert_eq!(
            components[0],
            json!({"type": "library", "bom-ref": "pkg:cargo/a@1.2.3", "name": "a", "version": "1.2.3",
                "purl": "pkg:cargo/a@1.2.3", "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": "abc"}]})
        );
        assert_eq!(
            bill["dependencies"][0],
            json!({"ref": "pkg:cargo/a@1.2.3", "dependsOn": ["pkg:cargo/b@1.0.0"]})
        );
    }
}

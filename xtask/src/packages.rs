//! The packages that a build uses, as cargo knows them offline: name, version, licence, origin, and who depends on whom.
//!
//! cargo lists every optional dependency that the lock file has, also those that no feature switches on. They are left out here,
//! since nothing of them is built.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: Option<String>,
    /// `None` for our own.
    pub source: Option<String>,
    /// Dependencies that say any version will do, or that name another registry.
    pub faults: Vec<String>,
    /// Ids of the packages that it is built and tested with.
    pub dependencies: BTreeSet<String>,
    /// Those of them that are part of it, not of its build script or its tests.
    pub parts: BTreeSet<String>,
}

/// By cargo's id.
#[derive(Debug)]
pub struct Packages {
    pub all: BTreeMap<String, Package>,
}

impl Packages {
    /// What the workspace needs on a target. Fails where a package was never downloaded.
    pub fn of_target(root: &Path, target: &str) -> Result<Self> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--offline", "--locked", "--all-features", "--format-version", "1"])
            .args(["--filter-platform", target])
            .current_dir(root)
            .output()
            .context("cargo cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cargo metadata for {target} (run `cargo fetch --locked` once): {said}"
        );
        Self::read(&serde_json::from_slice(&output.stdout).context("cargo metadata gives no JSON")?)
    }

    pub fn read(metadata: &Value) -> Result<Self> {
        let manifests: BTreeMap<&str, &Value> = items(&metadata["packages"])
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let mut nodes = BTreeMap::new();
        for node in items(&metadata["resolve"]["nodes"]) {
            let id = node["id"].as_str().context("a node without an id")?;
            nodes.insert(id, node);
        }
        let mut all = BTreeMap::new();
        let mut waiting: Vec<&str> = texts(&metadata["workspace_members"]).collect();
        ensure!(!waiting.is_empty(), "cargo metadata lists no member of the workspace");
        while let Some(id) = waiting.pop() {
            if all.contains_key(id) {
                continue;
            }
            let manifest = manifests.get(id).with_context(|| format!("{id} has no manifest"))?;
            let node = nodes.get(id).with_context(|| format!("{id} is not resolved"))?;
            let package = package(manifest, node, &manifests);
            waiting.extend(
                package
                    .dependencies
                    .iter()
                    .filter_map(|id| nodes.get_key_value(id.as_str()))
                    .map(|one| *one.0),
            );
            all.insert(id.to_string(), package);
        }
        Ok(Self { all })
    }

    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.all.values().filter(|package| package.source.is_some())
    }
}

fn package(manifest: &Value, node: &Value, manifests: &BTreeMap<&str, &Value>) -> Package {
    let text = |field: &str| manifest[field].as_str().map(String::from);
    let is_built = |used: &&Value| {
        let manifest_of = used["pkg"].as_str().and_then(|id| manifests.get(id));
        manifest_of.is_some_and(|of| is_switched_on(manifest, node, of))
    };
    let used: Vec<&Value> = items(&node["deps"]).filter(is_built).collect();
    let ids = |used: &[&Value]| used.iter().filter_map(|one| one["pkg"].as_str().map(String::from)).collect();
    let is_part = |used: &&&Value| items(&used["dep_kinds"]).any(|kind| kind["kind"].is_null());
    let parts: Vec<&Value> = used.iter().filter(is_part).copied().collect();
    Package {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        license: text("license"),
        source: text("source"),
        faults: items(&manifest["dependencies"]).filter_map(fault).collect(),
        dependencies: ids(&used),
        parts: ids(&parts),
    }
}

/// Whether a dependency is not optional, or some feature that is on asks for it.
fn is_switched_on(manifest: &Value, node: &Value, used: &Value) -> bool {
    let mut declared = items(&manifest["dependencies"]).filter(|one| one["name"] == used["name"]);
    let features: Vec<&str> = texts(&node["features"]).collect();
    let asks = |name: &str| {
        let mut entries = features.iter().flat_map(|feature| texts(&manifest["features"][*feature]));
        entries.any(|entry| {
            entry.strip_prefix("dep:") == Some(name)
                || entry.split_once('/').is_some_and(|(asked, _)| asked == name)
        })
    };
    declared.any(|one| {
        let name = one["rename"].as_str().or(one["name"].as_str()).unwrap_or_default();
        one["optional"] != true || features.contains(&name) || asks(name)
    })
}

fn fault(dependency: &Value) -> Option<String> {
    let name = dependency["name"].as_str()?;
    if dependency["req"] == "*" && dependency["path"].is_null() {
        return Some(format!("takes any version of {name}"));
    }
    dependency["registry"].as_str().map(|_| format!("takes {name} from another registry"))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).filter_map(Value::as_str)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A workspace of one member that uses `a`, which could use `b`.
    pub fn metadata(features_of_a: &[&str]) -> Value {
        let dependency = |name: &str, optional: bool| json!({"name": name, "req": "^1", "optional": optional, "registry": null});
        json!({
            "workspace_members": ["own"],
            "packages": [
                {"id": "own", "name": "own", "version": "0.1.0", "license": null, "source": null,
                 "dependencies": [dependency("a", false)], "features": {}},
                {"id": "a#1", "name": "a", "version": "1.2.3", "license": "MIT/Apache-2.0", "source": "registry+x",
                 "dependencies": [dependency("b", true)], "features": {"fast": ["b?/fast"], "with-b": ["dep:b"]}},
                {"id": "b#1", "name": "b", "version": "1.0.0", "license": "GPL-3.0-only", "source": "registry+x",
                 "dependencies": [{"name": "c", "req": "*", "optional": false, "registry": null}], "features": {}},
            ],
            "resolve": {"nodes": [
                {"id": "own", "features": [], "deps": [{"pkg": "a#1", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
                {"id": "a#1", "features": features_of_a, "deps": [{"pkg": "b#1", "dep_kinds": [{"kind": null}]}]},
                {"id": "b#1", "features": [], "deps": []},
            ]},
        })
    }

    fn check_names(features_of_a: &[&str], expected: &[&str]) {
        let packages = Packages::read(&metadata(features_of_a)).expect("it is well formed");
        let names: Vec<&str> = packages.all.values().map(|package| package.name.as_str()).collect();
        assert_eq!(names, expected, "{features_of_a:?}");
    }

    #[test]
    fn what_no_feature_switches_on_is_not_used() {
        check_names(&[], &["a", "own"]);
        check_names(&["fast"], &["a", "own"]);
        check_names(&["with-b"], &["a", "b", "own"]);
    }
}

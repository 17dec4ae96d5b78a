//! What comes in from outside: licences, bans and origins of all crates by the words of deny.toml, offline, and a hash for every
//! package of Python and npm. Advisories need the internet and are left to `make deny`.

use super::Finding;
use crate::packages::{Package, Packages};
use crate::repo::Repo;
use crate::spdx;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;

pub const POLICY: &str = "deny.toml";

/// What deny.toml says, as far as it can be checked offline.
pub struct Policy {
    pub targets: Vec<String>,
    licenses: BTreeSet<String>,
    banned: Vec<(String, String)>,
}

impl Policy {
    pub fn read(repo: &Repo) -> Result<Self> {
        Self::parse(&repo.text(POLICY)?.with_context(|| format!("{POLICY} is not text"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse().with_context(|| format!("{POLICY} is not TOML"))?;
        let list = |section: &str, name: &str| -> Vec<toml::Value> {
            let found = table.get(section).and_then(|section| section.get(name));
            found.and_then(toml::Value::as_array).cloned().unwrap_or_default()
        };
        let words = |values: Vec<toml::Value>| {
            values.iter().filter_map(|one| one.as_str().map(String::from)).collect()
        };
        let banned = list("bans", "deny").iter().filter_map(banned).collect();
        let policy = Self {
            targets: words(list("graph", "targets")),
            licenses: words(list("licenses", "allow")).into_iter().collect(),
            banned,
        };
        ensure!(
            !policy.targets.is_empty() && !policy.licenses.is_empty(),
            "{POLICY} names no target or no licence"
        );
        Ok(policy)
    }

    fn faults(&self, package: &Package) -> Vec<String> {
        let mut faults = package.faults.clone();
        if let Some((_, reason)) = self.banned.iter().find(|(name, _)| *name == package.name) {
            faults.push(format!("is banned: {reason}"));
        }
        if package.source.as_ref().is_some_and(|source| !source.starts_with("registry+")) {
            faults.push("does not come from the registry".into());
        }
        match &package.license {
            _ if package.source.is_none() => {}
            None => faults.push("names no licence".into()),
            Some(license) if spdx::is_allowed(license, &self.licenses) => {}
            Some(license) => faults.push(format!("has the licence {license}, which {POLICY} does not allow")),
        }
        faults
    }
}

fn banned(entry: &toml::Value) -> Option<(String, String)> {
    let text = |name: &str| entry.get(name).and_then(toml::Value::as_str).map(String::from);
    Some((text("name")?, text("reason").unwrap_or_default()))
}

pub fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let policy = Policy::read(repo)?;
    let mut messages = BTreeSet::new();
    for target in &policy.targets {
        let packages = Packages::of_target(repo.root(), target)?;
        messages.extend(packages.all.values().flat_map(|package| {
            let named = |fault| format!("{} {} {fault}", package.name, package.version);
            policy.faults(package).into_iter().map(named)
        }));
    }
    let of_crate = |message| Finding { path: "Cargo.lock".into(), line: None, message };
    let mut findings: Vec<Finding> = messages.into_iter().map(of_crate).collect();
    for path in repo.paths() {
        let check = match path.rsplit('/').next() {
            Some("package-lock.json") => unhashed_in_npm,
            Some("requirements.txt" | "build.txt") => unhashed_in_pip,
            _ => continue,
        };
        let text = repo.text(path)?.unwrap_or_default();
        let named = |name: String| format!("{name} has no hash");
        findings.extend(check(&text)?.into_iter().map(named).map(|message| Finding {
            path: path.into(),
            line: None,
            message,
        }));
    }
    Ok(findings)
}

/// Packages of a lock file of npm without an integrity. The one without a name is ours.
fn unhashed_in_npm(text: &str) -> Result<Vec<String>> {
    let lock: serde_json::Value = serde_json::from_str(text).context("a lock file is JSON")?;
    let packages = lock["packages"].as_object().context("a lock file lists packages")?;
    let unhashed =
        packages.iter().filter(|(name, package)| !name.is_empty() && package["integrity"].is_null());
    Ok(unhashed.map(|(name, _)| name.clone()).collect())
}

/// Requirements that are not pinned, or are followed by no hash.
fn unhashed_in_pip(text: &str) -> Result<Vec<String>> {
    let whole = text.replace("\\\n", " ");
    let lines = whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let unhashed = lines.filter(|line| !line.contains("==") || !line.contains("--hash=sha256:"));
    Ok(unhashed.map(|line| line.split_whitespace().next().unwrap_or_default().to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::metadata;

    const DENY: &str = r#"
        graph.targets = ["x"]
        licenses.allow = ["MIT"]
        bans.deny = [{ name = "a", reason = "slow" }]
    "#;

    fn check_faults(features_of_a: &[&str], policy: &str, expected: &[&str]) {
        let policy = Policy::parse(policy).expect("a policy");
        let packages = Packages::read(&metadata(features_of_a)).expect("it is well formed");
        let faults: Vec<String> = packages.all.values().flat_map(|package| policy.faults(package)).collect();
        assert_eq!(faults, expected, "{features_of_a:?}");
    }

    // fixes: security M13
    #[test]
    fn licences_bans_and_origins_are_checked_offline() {
        let none_banned = DENY.replace("\"a\"", "\"z\"");
        check_faults(&[], &none_banned, &[]);
        check_faults(&[], DENY, &["is banned: slow"]);
        check_faults(
            &["with-b"],
            &none_banned,
            &["takes any version of c", "has the licence GPL-3.0-only, which deny.toml does not allow"],
        );
        let from_git = |mut metadata: serde_json::Value| {
            metadata["packages"][1]["source"] = "git+x".into();
            metadata
        };
        let packages = Packages::read(&from_git(metadata(&[]))).expect("it is well formed");
        let policy = Policy::parse(&none_banned).expect("a policy");
        assert_eq!(policy.faults(&packages.all["a#1"]), ["does not come from the registry"]);
    }

    // fixes: security M13
    #[test]
    fn packages_without_a_hash_are_named() {
        let hashed = "# made by a tool\na==1.0 \\\n    --hash=sha256:00\n    # via b\nb==2 ; python_version < '4' \\\n  --hash=sha256:01 \\\n  --hash=sha256:02\n";
        assert_eq!(unhashed_in_pip(hashed).expect("text"), Vec::<String>::new());
        assert_eq!(unhashed_in_pip("a==1.0\nb>=2 --hash=sha256:00\n").expect("text"), ["a==1.0", "b>=2"]);
        let lock = r#"{"packages": {"": {"name": "own"}, "node_modules/a": {"integrity": "sha512-x"}, "node_modules/b": {}}}"#;
        assert_eq!(unhashed_in_npm(lock).expect("JSON"), ["node_modules/b"]);
        assert!(unhashed_in_npm("{}").is_err());
    }
}

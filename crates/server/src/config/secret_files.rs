//! Secrets from files: every secret setting has a twin with `_file` behind its name, which says in which file the secret is.
//!
//! Line breaks at the end of the file do not count. What must never happen: a secret that is given twice, of which one is
//! used in silence, or the content of such a file in an error.

use super::{ConfigError, Layers, SETTINGS, Secret, Setting, process_environment};
use crate::audit_files::{self, hex};
use fantail_api::key;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Headers for a collector have up to 4 KiB; everything else is shorter.
const SECRET_FILE_BYTES_MAX: usize = 16 << 10;
/// A server key may be 32 bytes as they are, like the one that the server makes.
const RAW_KEY: &str = "keyring.server_key";
const RAW_KEY_BYTES: usize = 32;

/// A value of the environment or of a configuration file, and where it stands.
pub type Given = (String, String);

/// The value of a secret setting, if it has one, and the file that it was read from.
pub fn value(
    setting: &Setting,
    plain: Option<Given>,
    file: Option<Given>,
) -> Result<Option<(Given, Option<PathBuf>)>, ConfigError> {
    let is_there = |given: &Given| !given.0.is_empty();
    match (plain.filter(is_there), file.filter(is_there)) {
        (Some((_, one)), Some((_, other))) => {
            let (key, twin) = (setting.key, setting.file_key());
            Err(ConfigError::TwoSources { names: format!("{key} ({one}) and {twin} ({other})") })
        }
        (Some(plain), None) => Ok(Some((plain, None))),
        (None, Some((path, source))) => {
            let may_be_raw = setting.key == RAW_KEY;
            let text = read(Path::new(&path), may_be_raw).map_err(|reason| ConfigError::Secret {
                key: setting.file_key(),
                source_name: source.clone(),
                reason: format!("{path} {reason}"),
            })?;
            Ok(Some(((text, format!("contents of {path}, {source}")), Some(path.into()))))
        }
        (None, None) => Ok(None),
    }
}

/// What a variable says that only commands read, or the file that its twin names.
pub fn of_command(name: &str) -> Result<Option<String>, ConfigError> {
    let twin = format!("{name}_FILE");
    match (process_environment(name), process_environment(&twin)) {
        (Some(_), Some(_)) => Err(ConfigError::TwoSources { names: format!("{name} and {twin}") }),
        (Some(text), None) => Ok(Some(text)),
        (None, Some(path)) => {
            let text = read(Path::new(&path), false).map_err(|reason| ConfigError::Secret {
                key: twin,
                source_name: "environment".to_owned(),
                reason: format!("{path} {reason}"),
            })?;
            Ok(Some(text))
        }
        (None, None) => Ok(None),
    }
}

impl Layers {
    pub(super) fn admin_key(&self) -> Result<Option<Secret>, ConfigError> {
        match self.get("admin.key").0 {
            "" => Ok(None),
            text if key::is_admin_key(text) => Ok(Some(Secret(text.to_owned()))),
            _ => {
                Err(self
                    .invalid("admin.key", "must have 32 to 256 printable characters and not begin with ft_"))
            }
        }
    }

    pub(super) fn signing_key(&self) -> Result<Option<Secret>, ConfigError> {
        match self.get("audit.signing_key").0 {
            "" => Ok(None),
            text if audit_files::is_signing_key(text) => Ok(Some(Secret(text.to_owned()))),
            _ => Err(self.invalid("audit.signing_key", "must have 64 hexadecimal digits")),
        }
    }

    /// Those that hold a secret alone, and configuration files that hold one.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        let sources = SETTINGS.iter().filter(|setting| setting.secret).map(|setting| self.get(setting.key).1);
        let mut files = self.secret_files.clone();
        files.extend(sources.filter_map(|source| source.strip_prefix("file ")).map(PathBuf::from));
        files.dedup();
        files
    }
}

/// What `--help` says about secrets.
#[must_use]
pub fn secrets_help() -> String {
    let mut text =
        String::from("Secrets, as a variable of the environment or in a file that a variable names:\n");
    for setting in SETTINGS.iter().filter(|setting| setting.secret) {
        text.push_str(&format!("  {}, {}\n", setting.environment(), setting.file_environment()));
    }
    text.push_str("Other settings: `fantail config doc`");
    text
}

/// The content of a file, or what is wrong with it.
fn read(path: &Path, may_be_raw: bool) -> Result<String, String> {
    let bytes = read_bounded(path).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() > SECRET_FILE_BYTES_MAX {
        return Err(format!("has more than {SECRET_FILE_BYTES_MAX} bytes"));
    }
    if may_be_raw && bytes.len() == RAW_KEY_BYTES {
        return Ok(hex(&bytes));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not text".to_owned())?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(SECRET_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Flags};
    use super::*;
    use std::fs;

    /// A directory that goes away with the test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fantail-secrets-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }

        fn with(&self, name: &str, content: &[u8]) -> String {
            let path = self.0.join(name);
            fs::write(&path, content).expect("a file");
            path.display().to_string()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the directory is there");
        }
    }

    fn layers(environment: &[(&str, &str)], file: Option<&str>) -> Result<Layers, ConfigError> {
        let flags = Flags { file: file.map(PathBuf::from), ..Flags::default() };
        let found =
            |name: &str| environment.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
        Layers::read(&flags, &found)
    }

    fn config(environment: &[(&str, &str)], file: Option<&str>) -> Result<Config, ConfigError> {
        layers(environment, file)?.config()
    }

    fn secrets() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| setting.secret)
    }

    /// A value that the setting takes. A new secret needs one here.
    fn valid(key: &str) -> &'static str {
        match key {
            "admin.key" => "an-admin-key-of-more-than-32-letters",
            "keyring.server_key" | "audit.signing_key" => {
                "5ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e70000"
            }
            "otlp.headers" => "api-key=s3cr3t",
            other => panic!("{other} has no value in this table"),
        }
    }

    #[test]
    fn every_secret_may_be_in_a_file_of_its_own() {
        let directory = Directory::new("every");
        for setting in secrets() {
            let (key, secret) = (setting.key, valid(setting.key));
            let (section, name) = key.rsplit_once('.').expect("secrets have a section");
            for content in [secret.to_owned(), format!("{secret}\n"), format!("{secret}\r\n")] {
                let file = directory.with("secret", content.as_bytes());
                let toml =
                    directory.with("toml", format!("[{section}]\n{name}_file = {file:?}\n").as_bytes());
                let variable = setting.file_environment();
                let environment = [(variable.as_str(), file.as_str())];
                for (environment, toml) in [(&environment[..], None), (&[][..], Some(toml.as_str()))] {
                    let layers = layers(environment, toml).expect("it is there");
                    assert_eq!(layers.get(key).0, secret, "{key}");
                    assert!(layers.get(key).1.starts_with(&format!("contents of {file}, ")), "{key}");
                    let config = layers.config().unwrap_or_else(|error| panic!("{key}: {error}"));
                    assert_eq!(config.secret_files, [PathBuf::from(&file)], "{key}: it is looked after");
                    assert!(!format!("{config:?}").contains(secret), "{key} is not shown");
                }
            }
        }
    }

    #[test]
    fn a_secret_that_is_given_twice_or_cannot_be_read_is_refused_by_name() {
        let directory = Directory::new("refused");
        for setting in secrets() {
            let (key, secret, variable) = (setting.key, valid(setting.key), setting.file_environment());
            let twin = setting.file_key();
            let file = directory.with("good", secret.as_bytes());
            let plain = setting.environment();
            let twice = [(plain.as_str(), secret), (variable.as_str(), file.as_str())];
            let refused = config(&twice, None).expect_err("given twice").to_string();
            for part in [key, &twin, &plain, &variable] {
                assert!(refused.contains(part), "{refused} should contain {part}");
            }
            // What is empty is not there, as compose files write it.
            let once = [(plain.as_str(), ""), (variable.as_str(), file.as_str())];
            assert!(config(&once, None).is_ok(), "{key}");
            let (mut large, binary) = (vec![b'k'; SECRET_FILE_BYTES_MAX], [0xff; 40]);
            large.push(b'k');
            for (content, part) in [
                (Some(&b""[..]), "is empty"),
                (Some(b"\n\n"), "is empty"),
                (Some(&large), "more than 16384 bytes"),
                (Some(&binary), "is not text"),
                (None, "cannot be read"),
            ] {
                let file = content.map(|content| directory.with("bad", content));
                let file = file.unwrap_or_else(|| "/nonexistent/secret".to_owned());
                let refused =
                    config(&[(variable.as_str(), file.as_str())], None).expect_err(part).to_string();
                for part in [part, &twin, &variable, &file] {
                    assert!(refused.contains(part), "{refused} should contain {part}");
                }
                assert!(!refused.contains("kkkk"), "{key}: what is in it is not shown");
            }
        }
    }

    #[test]
    fn help_and_document_name_the_twin_of_every_secret() {
        let help = secrets_help();
        for setting in secrets() {
            for name in [setting.environment(), setting.file_environment()] {
                assert!(help.contains(&name), "{name} in {help}");
            }
        }
        assert!(!help.contains("FANTAIL_LISTEN"), "{help}");
    }

    #[test]
    fn only_secrets_have_a_twin() {
        let directory = Directory::new("twins");
        let toml = directory.with("toml", b"[http]\npublic_url_file = \"x\"\n");
        let refused = config(&[], Some(&toml)).expect_err("no secret").to_string();
        assert!(refused.contains("unknown key: http.public_url_file"), "{refused}");
    }

    // fixes: security M11
    #[test]
    fn the_server_key_has_one_source() {
        let directory = Directory::new("server-key");
        let key = "0123456789abcdef".repeat(4);
        let raw: [u8; 32] = std::array::from_fn(|at| at as u8);
        let file = directory.with("raw", &raw);
        let toml = directory.with("toml", b"[keyring]\nserver_key_command = [\"kms\", \"un wrap\"]\n");
        let (plain, twin) = ("FANTAIL_KEYRING_SERVER_KEY", "FANTAIL_KEYRING_SERVER_KEY_FILE");
        let command = ("FANTAIL_KEYRING_SERVER_KEY_COMMAND", "[\"kms\"]");
        let name = |environment: &[(&str, &str)], toml: Option<&str>| {
            config(environment, toml).map(|config| config.server_key.name().to_owned())
        };
        for (environment, toml, expected) in [
            (&[][..], None, "keys/server.key"),
            (&[(plain, key.as_str())], None, "keyring.server_key"),
            (&[(twin, file.as_str())], None, "keyring.server_key_file"),
            (&[command], None, "keyring.server_key_command"),
            (&[], Some(toml.as_str()), "keyring.server_key_command"),
        ] {
            assert_eq!(name(environment, toml).expect("one source"), expected);
        }
        let read = config(&[(twin, &file)], None).expect("a key").server_key.key().expect("a key");
        assert_eq!(read.map(|key| key.0), Some(raw), "as the server writes it itself");
        let [plain, twin] = [(plain, key.as_str()), (twin, file.as_str())];
        for (environment, names) in [
            (&[plain, command][..], ["keyring.server_key (", "keyring.server_key_command ("]),
            (&[twin, command], ["keyring.server_key_file (", "keyring.server_key_command ("]),
            (&[plain, twin], ["keyring.server_key (", "keyring.server_key_file ("]),
        ] {
            let refused = config(environment, None).expect_err("two sources").to_string();
            assert!(names.iter().all(|name| refused.contains(name)), "{refused}");
            assert!(!refused.contains(&key), "{refused}");
        }
        for wrong in ["kms decrypt", "[1]", "\"kms\"", "[\"\"]", "{}", "[\"a\\u0000b\"]"] {
            let refused = config(&[(command.0, wrong)], None).expect_err("no list of texts").to_string();
            assert!(
                refused.contains("keyring.server_key_command") && refused.contains("list of texts"),
                "{refused}"
            );
        }
        let refused = config(&[(plain.0, "s3cr3t")], None).expect_err("no key").to_string();
        assert!(refused.contains("32 bytes") && !refused.contains("s3cr3t"), "{refused}");
    }
}

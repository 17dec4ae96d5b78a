//! `fantail config doc|check|show`.

use crate::cli::{ConfigCommand, ServeArgs, say};
use crate::config::{ConfigError, Layers, SETTINGS, Setting, process_environment, unknown_variables};
use anyhow::Result;

pub fn run(command: ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Doc => say(document().trim_end()),
        ConfigCommand::Check(args) => {
            layers(&args)?.config()?;
            let unknown = unknown_variables();
            if !unknown.is_empty() {
                return Err(ConfigError::UnknownVariables { names: unknown.join(", ") }.into());
            }
            say("the configuration is valid")
        }
        ConfigCommand::Show(args) => say(shown(&layers(&args)?).trim_end()),
    }
}

fn layers(args: &ServeArgs) -> Result<Layers> {
    Ok(Layers::read(&args.flags(), &process_environment)?)
}

/// A file with every setting at its default, commented out.
fn document() -> String {
    let mut text = String::from(
        "# Every setting of Fantail. A flag wins over the environment, that over this file, that over the default.\n\
         # Give this file with --config FILE or FANTAIL_CONFIG. Unknown keys are refused.\n",
    );
    let mut table = "";
    for setting in SETTINGS.iter().filter(|setting| !setting.testing) {
        let (of, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        if of != table {
            text.push_str(&format!("\n[{of}]\n"));
            table = of;
        }
        let value = quoted(setting, setting.default);
        text.push_str(&format!("\n# {}\n# {}\n# {name} = {value}\n", setting.doc, setting.environment()));
        if setting.secret {
            text.push_str(&format!(
                "\n# A file that holds {}, instead of it. Line breaks at its end do not count.\n# {}\n# {name}_file = \"\"\n",
                setting.key,
                setting.file_environment()
            ));
        }
    }
    text
}

fn shown(layers: &Layers) -> String {
    let mut text = String::new();
    for setting in SETTINGS {
        let (value, source) = layers.get(setting.key);
        let value = match (setting.secret, value) {
            (true, "") | (false, _) => quoted(setting, value),
            (true, _) => "(hidden)".to_owned(),
        };
        text.push_str(&format!("{} = {value}  # {source}\n", setting.key));
    }
    text
}

fn quoted(setting: &Setting, value: &str) -> String {
    match (setting.number, setting.list) {
        (true, _) => value.to_owned(),
        (false, true) if value.is_empty() => "[]".to_owned(),
        (false, true) => value.to_owned(),
        (false, false) => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    #[test]
    fn the_document_is_a_valid_file_once_uncommented() {
        let uncommented: String = document()
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") => format!("{rest}\n"),
                Some(_) | None => format!("{line}\n"),
            })
            .collect();
        let table: toml::Table = uncommented.parse().expect("TOML");
        assert_eq!(table["listen"].as_str(), Some("127.0.0.1:7070"));
        assert!(!uncommented.contains("stub_") && !uncommented.contains("die_at"), "{uncommented}");
        assert_eq!(table["http"]["drain_s"].as_integer(), Some(10));
    }

    #[test]
    fn secrets_are_hidden() {
        let environment = |name: &str| (name == "FANTAIL_ADMIN_KEY").then(|| "s3cr3t".repeat(8));
        let text = shown(&Layers::read(&Flags::default(), &environment).expect("layers"));
        assert!(text.contains("admin.key = (hidden)  # environment FANTAIL_ADMIN_KEY"), "{text}");
        assert!(!text.contains("s3cr3t"));
        assert!(text.contains("listen = \"127.0.0.1:7070\"  # default"));
    }
}

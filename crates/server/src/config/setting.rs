//! One setting: its names in the file and in the environment, and those of the file that a secret may be in.

use super::SETTINGS;

pub struct Setting {
    /// Key in the file; dots are tables.
    pub key: &'static str,
    pub default: &'static str,
    /// One or more sentences for the operator.
    pub doc: &'static str,
    /// Never shown.
    pub secret: bool,
    /// Written without quotes in a file.
    pub number: bool,
    /// Several texts: a list in a file, one in JSON in the environment.
    pub list: bool,
    /// Refused unless FANTAIL_TESTING=1; not in `fantail config doc`.
    pub testing: bool,
}

impl Setting {
    /// `FANTAIL_` and the key in capitals.
    #[must_use]
    pub fn environment(&self) -> String {
        format!("FANTAIL_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }

    /// The key of a secret's twin, which says in which file the secret is.
    #[must_use]
    pub fn file_key(&self) -> String {
        format!("{}_file", self.key)
    }

    /// The variable of a secret's twin.
    #[must_use]
    pub fn file_environment(&self) -> String {
        format!("{}_FILE", self.environment())
    }

    /// Whether a file may have this key.
    #[must_use]
    pub fn is_key(key: &str) -> bool {
        let of_twin = |setting: &Self| setting.secret && setting.file_key() == key;
        Self::by_key(key).is_some() || SETTINGS.iter().any(of_twin)
    }

    /// Whether the environment may have this variable.
    #[must_use]
    pub fn is_variable(name: &str) -> bool {
        let is_of = |setting: &Self| {
            setting.environment() == name || (setting.secret && setting.file_environment() == name)
        };
        SETTINGS.iter().any(is_of)
    }

    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }
}

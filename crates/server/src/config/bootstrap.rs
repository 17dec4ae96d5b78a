//! What a new server makes for its first request.

use super::{ConfigError, Layers};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bootstrap {
    None,
    /// A tenant, and a key that does not administer and sends nothing critical.
    Default,
    /// A tenant, and a key that may do everything.
    Full,
}

impl Layers {
    pub(super) fn bootstrap(&self) -> Result<Bootstrap, ConfigError> {
        match self.get("bootstrap").0 {
            "none" => Ok(Bootstrap::None),
            "default" => Ok(Bootstrap::Default),
            "full" => Ok(Bootstrap::Full),
            _ => Err(self.invalid("bootstrap", "must be default, full or none")),
        }
    }
}

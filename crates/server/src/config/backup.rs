//! To whom backups are sealed, and how long they stay.

use super::{ConfigError, Layers};
use crate::backups::BackupSettings;
use fantail_local::recipient::{KeyTextError, Recipient};

const DAY_MS: u64 = 86_400_000;
/// More do not fit on any disk.
const KEPT_MAX: usize = 1_000_000;

impl Layers {
    pub(super) fn backup(&self) -> Result<BackupSettings, ConfigError> {
        Ok(BackupSettings {
            recipient: self.recipient()?,
            keep_max: self.number("backup.keep_max", 0, KEPT_MAX)?,
            keep_ms: self.number::<u64>("backup.keep_days", 0, 36_500)? * DAY_MS,
        })
    }

    fn recipient(&self) -> Result<Option<Recipient>, ConfigError> {
        let key = "backup.recipient";
        let text = self.get(key).0;
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.parse().map_err(|wrong: KeyTextError| self.invalid(key, &wrong.to_string()));
        let recipient: Recipient = parsed?;
        // Now, and not when the first backup is wanted.
        recipient.seal(&[]).map(|_| Some(recipient)).ok_or_else(|| self.invalid(key, "is no public key"))
    }
}

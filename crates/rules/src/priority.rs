//! Four lanes, and which one a category takes by default.

/// Frozen numbers: they are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Priority {
    Critical = 0,
    High = 1,
    Normal = 2,
    Low = 3,
}

impl Priority {
    /// In the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The lane of an event that names none.
    #[must_use]
    pub fn of_category(category: &str) -> Self {
        match category {
            "security" | "transaction" => Self::Critical,
            "message" | "mention" => Self::High,
            "marketing" | "digest" => Self::Low,
            _ => Self::Normal,
        }
    }

    /// As requests and metrics say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// An unknown number is from a later version; it is shown as normal.
    #[must_use]
    pub fn from_stored(number: u8) -> Self {
        match number {
            0 => Self::Critical,
            1 => Self::High,
            3 => Self::Low,
            _ => Self::Normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: PRI-03
    #[test]
    fn categories_have_default_lanes() {
        for (category, lane) in [
            ("security", Priority::Critical),
            ("transaction", Priority::Critical),
            ("message", Priority::High),
            ("mention", Priority::High),
            ("marketing", Priority::Low),
            ("digest", Priority::Low),
            ("post", Priority::Normal),
            ("", Priority::Normal),
        ] {
            assert_eq!(Priority::of_category(category), lane, "{category}");
            assert_eq!(Priority::from_stored(lane as u8), lane);
        }
    }
}

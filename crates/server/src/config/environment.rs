//! Variables of the environment that look like settings and are none.

use super::{SWITCH, Setting};

/// Variables with our prefix that something else reads: the commands, and the test clock.
const OTHERS: [&str; 4] = ["FANTAIL_CONFIG", "FANTAIL_KEY", "FANTAIL_KEY_FILE", crate::test_clock::BEGINS];

/// Names that begin like a setting and name none. Kubernetes sets some itself for a service that is called `fantail`.
pub fn unknown_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known = |name: &str| name == SWITCH || OTHERS.contains(&name) || Setting::is_variable(name);
    let is_of_kubernetes = |name: &str| {
        name == "FANTAIL_PORT" || name.starts_with("FANTAIL_PORT_") || name.starts_with("FANTAIL_SERVICE_")
    };
    let ours = names.filter(|name| name.starts_with("FANTAIL_"));
    let mut unknown: Vec<String> = ours.filter(|name| !is_known(name) && !is_of_kubernetes(name)).collect();
    unknown.sort();
    unknown
}

/// The same of this process.
pub fn unknown_variables() -> Vec<String> {
    unknown_names(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

#[cfg(test)]
mod tests {
    use super::super::SETTINGS;
    use super::*;

    // fixes: usability C11
    #[test]
    fn misspelt_settings_are_named() {
        let check = |names: &[&str]| unknown_names(names.iter().map(|name| (*name).to_owned()));
        let settings: Vec<String> = SETTINGS.iter().map(Setting::environment).collect();
        assert!(unknown_names(settings.into_iter()).is_empty());
        let twins = SETTINGS.iter().filter(|setting| setting.secret).map(Setting::file_environment);
        assert!(unknown_names(twins).is_empty());
        assert_eq!(check(&["FANTAIL_LISTEN_FILE"]), ["FANTAIL_LISTEN_FILE"], "no secret");
        for known in ["FANTAIL_CONFIG", "FANTAIL_TESTING", "FANTAIL_KEY", "FANTAIL_SERVICE_HOST", "HOME"] {
            assert!(check(&[known]).is_empty(), "{known}");
        }
        assert_eq!(check(&["FANTAIL_LISTENN", "FANTAIL_LISTEN"]), ["FANTAIL_LISTENN"]);
    }
}

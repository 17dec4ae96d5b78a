//! What is said about connections that tenants can cause. The defaults allow TLS to public addresses on usual ports.

use super::{ConfigError, Layers};
use fantail_outbound::policy::{ALLOW_MAX, Allow, Families, Policy};

impl Layers {
    pub(super) fn outbound(&self) -> Result<Policy, ConfigError> {
        let entry = |text: &str| {
            text.parse::<Allow>().map_err(|error| self.invalid("outbound.allow", &error.to_string()))
        };
        let allow: Vec<Allow> = self.listed("outbound.allow").map(entry).collect::<Result<_, _>>()?;
        if allow.len() > ALLOW_MAX {
            return Err(self.invalid("outbound.allow", &format!("must have at most {ALLOW_MAX} entries")));
        }
        let families = match self.get("outbound.families").0 {
            "both" => Families::Both,
            "ipv4" => Families::Ipv4,
            "ipv6" => Families::Ipv6,
            _ => return Err(self.invalid("outbound.families", "must be both, ipv4 or ipv6")),
        };
        let (web, mail) = (self.ports("outbound.ports")?, self.ports("outbound.mail_ports")?);
        Ok(Policy::default().allowing(allow).with_ports(web, mail).with_families(families))
    }

    fn ports(&self, key: &'static str) -> Result<Vec<u16>, ConfigError> {
        let port = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
        let ports: Option<Vec<u16>> = self.listed(key).map(port).collect();
        ports.ok_or_else(|| self.invalid(key, "must be ports like 443, separated by commas"))
    }

    fn listed(&self, key: &'static str) -> impl Iterator<Item = &str> {
        self.get(key).0.split(',').map(str::trim).filter(|one| !one.is_empty())
    }
}

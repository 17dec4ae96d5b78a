//! Whether a connection may be made: first by what its target says, then by each address that its name has.
//!
//! One value for everything that tenants can cause to be connected to. Only an operator sets it (`outbound.*`). What an
//! operator configures himself (collectors, object storage) is not judged.
//!
//! What must never happen: a reason that tells a tenant which address a name has inside the house. So reasons name what the
//! tenant wrote, and nothing else.

mod allow;

pub use allow::{Allow, AllowError, Covers};

use crate::address::{Reach, reach};
use crate::url::{Host, Origin, Scheme};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The setting that refusals name.
pub const SETTING: &str = "outbound.allow";
/// TLS on the ports that receivers of webhooks and providers use.
pub const WEB_PORTS: &[u16] = &[443, 8443];
/// Entries of `outbound.allow`: each is compared with every address that is connected to.
pub const ALLOW_MAX: usize = 256;
/// Relays: between servers, with TLS from the first byte, submission, and its usual alternative.
pub const MAIL_PORTS: &[u16] = &[25, 465, 587, 2525];

/// Where a connection goes, as a tenant's settings or a URL say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
    /// Without TLS, so that everyone on the way reads it.
    pub is_plain: bool,
    pub service: Service,
}

/// Which ports are usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    Web,
    Mail,
}

/// Which addresses are connected to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Families {
    #[default]
    Both,
    Ipv4,
    Ipv6,
}

/// The operator's settings.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Of an operator's own connections nothing is judged.
    is_judging: bool,
    allow: Vec<Allow>,
    web_ports: Vec<u16>,
    mail_ports: Vec<u16>,
    families: Families,
}

/// Why a target may not be connected to. The texts are for tenants.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Forbidden {
    #[error("forbidden: the address is link-local or a cloud's metadata service, which no setting allows")]
    Never,
    #[error("forbidden: the address is not public; the operator can allow it: {SETTING} = \"{allow}\"")]
    Private { allow: String },
    /// Names no address, and says of a name that nobody has what it says of one inside.
    #[error(
        "forbidden or unknown: the host has no address that may be connected to; the operator can list its network in {SETTING}"
    )]
    Resolved,
    #[error("forbidden: the host has no domain; the operator can allow it: {SETTING} = \"{allow}\"")]
    ShortName { allow: String },
    #[error("forbidden: this is plain http; use TLS, or the operator can allow it: {SETTING} = \"{allow}\"")]
    Plain { allow: String },
    #[error("forbidden: port {port} is not a usual one; the operator can allow it: {SETTING} = \"{allow}\"")]
    Port { port: u16, allow: String },
    #[error("forbidden: outbound.families leaves out addresses like this one")]
    Family,
}

impl Destination {
    #[must_use]
    pub fn web(origin: &Origin) -> Self {
        let is_plain = origin.scheme == Scheme::Http;
        Self { host: origin.host.clone(), port: origin.port, is_plain, service: Service::Web }
    }

    /// The entry that allows exactly this.
    fn entry(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Default for Policy {
    /// TLS to public addresses on usual ports, and nothing else.
    fn default() -> Self {
        Self {
            is_judging: true,
            allow: Vec::new(),
            web_ports: WEB_PORTS.to_vec(),
            mail_ports: MAIL_PORTS.to_vec(),
            families: Families::Both,
        }
    }
}

impl Policy {
    /// For what the operator's own settings name.
    #[must_use]
    pub fn of_operator() -> Self {
        Self { is_judging: false, ..Self::default() }
    }

    #[must_use]
    pub fn allowing(self, allow: Vec<Allow>) -> Self {
        Self { allow, ..self }
    }

    /// What is listed, as an operator writes it.
    #[must_use]
    pub fn listed(&self) -> String {
        self.allow.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[must_use]
    pub fn with_ports(self, web_ports: Vec<u16>, mail_ports: Vec<u16>) -> Self {
        Self { web_ports, mail_ports, ..self }
    }

    #[must_use]
    pub fn with_families(self, families: Families) -> Self {
        Self { families, ..self }
    }

    /// What can be said without resolving a name: `Err` for a target that can never be connected to.
    pub fn judge(&self, destination: &Destination) -> Result<(), Forbidden> {
        if !self.is_judging {
            return Ok(());
        }
        let name = match &destination.host {
            Host::Address(address) => return self.judge_address(destination, *address),
            Host::Name(name) => name,
        };
        let (is_usual, allow) = (self.is_usual(destination), destination.entry());
        if is_this_machine(name) {
            let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            let is_allowed = here.iter().any(|address| self.judge_address(destination, *address).is_ok());
            return if is_allowed { Ok(()) } else { Err(Forbidden::Private { allow }) };
        }
        // A resolver would look for it inside the house first, so only an entry with its name allows it.
        if !name.contains('.') && !self.allow.iter().any(|entry| entry.names(name)) {
            return Err(Forbidden::ShortName { allow });
        }
        let covers = self.allow.iter().map(|entry| entry.could_cover(name, destination.port, is_usual));
        match strongest(covers) {
            Covers::Port => Ok(()),
            Covers::Usual | Covers::No if destination.is_plain => Err(Forbidden::Plain { allow }),
            Covers::Usual => Ok(()),
            Covers::No if is_usual => Ok(()),
            Covers::No => Err(Forbidden::Port { port: destination.port, allow }),
        }
    }

    /// Whether the destination may be connected to at this address.
    pub fn judge_address(&self, destination: &Destination, address: IpAddr) -> Result<(), Forbidden> {
        if !self.is_judging {
            return Ok(());
        }
        let reach = reach(address);
        if reach == Reach::Never {
            return Err(Forbidden::Never);
        }
        match (self.families, address) {
            (Families::Ipv4, IpAddr::V6(_)) | (Families::Ipv6, IpAddr::V4(_)) => {
                return Err(Forbidden::Family);
            }
            (Families::Both, _) | (Families::Ipv4, IpAddr::V4(_)) | (Families::Ipv6, IpAddr::V6(_)) => {}
        }
        let (is_usual, allow) = (self.is_usual(destination), destination.entry());
        let Destination { host, port, is_plain, .. } = destination;
        let covers = self.allow.iter().map(|entry| entry.covers(host, (address, reach), *port, is_usual));
        match (strongest(covers), reach) {
            (Covers::Port, _) => Ok(()),
            (Covers::No, Reach::Private | Reach::Special | Reach::Never) => Err(Forbidden::Private { allow }),
            (Covers::Usual | Covers::No, _) if *is_plain => Err(Forbidden::Plain { allow }),
            (Covers::Usual, _) => Ok(()),
            (Covers::No, Reach::Public) if is_usual => Ok(()),
            (Covers::No, Reach::Public) => Err(Forbidden::Port { port: *port, allow }),
        }
    }

    fn is_usual(&self, destination: &Destination) -> bool {
        match destination.service {
            Service::Web => self.web_ports.contains(&destination.port),
            Service::Mail => self.mail_ports.contains(&destination.port),
        }
    }
}

/// Names that every resolver gives loopback addresses, whatever their domain.
fn is_this_machine(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn strongest(covers: impl Iterator<Item = Covers>) -> Covers {
    covers.fold(Covers::No, |strongest, one| match (strongest, one) {
        (Covers::Port, _) | (_, Covers::Port) => Covers::Port,
        (Covers::Usual, _) | (_, Covers::Usual) => Covers::Usual,
        (Covers::No, Covers::No) => Covers::No,
    })
}

#[cfg(test)]
mod tests;

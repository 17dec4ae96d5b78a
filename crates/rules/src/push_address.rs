//! Where a push goes, as one line of text that is sealed as an address: which service, which app, and the token.
//!
//! ```text
//! apns production|sandbox MILLIS TOPIC|- TOKEN
//! fcm token|fid MILLIS PROJECT|- TOKEN
//! web MILLIS P256DH AUTH URL
//! ```
//! What must never happen: a line that two readers take apart in two ways. No part holds white space, and the last one has
//! no end but that of the line.

use crate::ids::Millis;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushAddress<'a> {
    pub service: Service<'a>,
    /// When the app last said that this token is its own: what a provider says about an earlier one does not count.
    pub registered_at: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service<'a> {
    Apns {
        environment: Environment,
        /// The app's bundle; what the account says if not given.
        topic: Option<&'a str>,
        token: &'a str,
    },
    Fcm {
        kind: FcmKind,
        /// Of the token; the account that the user belongs to if not given.
        project: Option<&'a str>,
        token: &'a str,
    },
    WebPush {
        url: &'a str,
        /// The browser's public key and secret, base64url without padding.
        p256dh: &'a str,
        auth: &'a str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Environment {
    Production,
    Sandbox,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FcmKind {
    Token,
    /// A Firebase installation id.
    Fid,
}

impl Environment {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Sandbox => "sandbox",
        }
    }
}

impl FcmKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Fid => "fid",
        }
    }
}

impl<'a> PushAddress<'a> {
    #[must_use]
    pub fn write(&self) -> String {
        let at = self.registered_at.0;
        match self.service {
            Service::Apns { environment, topic, token } => {
                format!("apns {} {at} {} {token}", environment.name(), topic.unwrap_or("-"))
            }
            Service::Fcm { kind, project, token } => {
                format!("fcm {} {at} {} {token}", kind.name(), project.unwrap_or("-"))
            }
            Service::WebPush { url, p256dh, auth } => format!("web {at} {p256dh} {auth} {url}"),
        }
    }

    /// `None` if this is no such line.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(bytes).ok()?.split(' ');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        let known = |part: &'a str| (part != "-").then_some(part);
        let (service, at) = match next()? {
            "apns" => {
                let environment = match next()? {
                    "production" => Environment::Production,
                    "sandbox" => Environment::Sandbox,
                    _ => return None,
                };
                let (at, topic) = (next()?, known(next()?));
                (Service::Apns { environment, topic, token: next()? }, at)
            }
            "fcm" => {
                let kind = match next()? {
                    "token" => FcmKind::Token,
                    "fid" => FcmKind::Fid,
                    _ => return None,
                };
                let (at, project) = (next()?, known(next()?));
                (Service::Fcm { kind, project, token: next()? }, at)
            }
            "web" => {
                let at = next()?;
                let (p256dh, auth) = (next()?, next()?);
                (Service::WebPush { url: next()?, p256dh, auth }, at)
            }
            _ => return None,
        };
        let is_over = parts.next().is_none();
        let registered_at = Millis(at.parse().ok()?);
        is_over.then_some(Self { service, registered_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(service: Service<'_>, text: &str) {
        let address = PushAddress { service, registered_at: Millis(12) };
        assert_eq!(address.write(), text);
        assert_eq!(PushAddress::read(text.as_bytes()), Some(address));
    }

    #[test]
    fn what_is_written_is_read() {
        let (environment, token) = (Environment::Production, "ab12");
        check(Service::Apns { environment, topic: None, token }, "apns production 12 - ab12");
        let (environment, topic) = (Environment::Sandbox, Some("com.example.app"));
        check(Service::Apns { environment, topic, token }, "apns sandbox 12 com.example.app ab12");
        check(Service::Fcm { kind: FcmKind::Token, project: None, token }, "fcm token 12 - ab12");
        check(Service::Fcm { kind: FcmKind::Fid, project: Some("p1"), token }, "fcm fid 12 p1 ab12");
        let web = Service::WebPush { url: "https://push.example/1", p256dh: "BA", auth: "zz" };
        check(web, "web 12 BA zz https://push.example/1");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "stub:ok",
            "ab12",
            "apns",
            "apns production 12 -",
            "apns production x - ab12",
            "apns staging 12 - ab12",
            "apns production 12 - ab12 more",
            "apns production 12  ab12",
            "fcm topic 12 - news",
            "web 12 BA zz",
            "APNS production 12 - ab12",
        ] {
            assert_eq!(PushAddress::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(PushAddress::read(b"apns production 12 - \xff"), None);
    }
}

//! For which names and when a certificate of SNS is good. Its key is read elsewhere; that it came from SNS, TLS says.
//!
//! Input: the DER of one X.509 certificate (RFC 5280). Nothing is copied but names, nothing recurses, and whatever is not as
//! expected makes the certificate unreadable.

use super::events::time;
use fantail_rules::ids::Millis;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, which holds the version, and `[3]`, which holds the extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `dNSName` of an alternative name.
const DNS_NAME: u8 = 0x82;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// Certificates of SNS have three at most.
const NAMES_MAX: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateTerms {
    /// The alternative names; the common name if there are none.
    pub names: Vec<String>,
    pub from: Millis,
    pub until: Millis,
}

impl CertificateTerms {
    #[must_use]
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let mut outer = Der(certificate);
        let mut certificate = Der(outer.take(SEQUENCE)?);
        let mut fields = Der(certificate.take(SEQUENCE)?);
        fields.skip_if(VERSION)?;
        fields.take(INTEGER)?;
        // The algorithm, and the issuer.
        fields.take(SEQUENCE)?;
        fields.take(SEQUENCE)?;
        let mut validity = Der(fields.take(SEQUENCE)?);
        let (from, until) = (validity.time()?, validity.time()?);
        let common_names = common_names(Der(fields.take(SEQUENCE)?))?;
        // The key.
        fields.take(SEQUENCE)?;
        let mut names = Vec::new();
        while let Some((tag, value)) = fields.next()? {
            if tag == EXTENSIONS {
                names = alternative_names(Der(value))?;
            }
        }
        if names.is_empty() {
            names = common_names;
        }
        Some(Self { names, from, until })
    }

    #[must_use]
    pub fn is_good_at(&self, now: Millis) -> bool {
        self.from <= now && now <= self.until
    }
}

fn common_names(mut subject: Der<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    while !subject.0.is_empty() {
        let mut attributes = Der(subject.take(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = Der(attributes.take(SEQUENCE)?);
            let is_common_name = attribute.take(OBJECT_ID)? == COMMON_NAME;
            let (_, value) = attribute.next()??;
            if is_common_name && names.len() < NAMES_MAX {
                names.push(String::from_utf8(value.to_vec()).ok()?);
            }
        }
    }
    Some(names)
}

fn alternative_names(mut extensions: Der<'_>) -> Option<Vec<String>> {
    let mut extensions = Der(extensions.take(SEQUENCE)?);
    let mut names = Vec::new();
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        let id = extension.take(OBJECT_ID)?;
        // Whether it is critical.
        extension.skip_if(BOOLEAN)?;
        let value = extension.take(OCTETS)?;
        if id != ALTERNATIVE_NAME {
            continue;
        }
        let mut listed = Der(Der(value).take(SEQUENCE)?);
        while let Some((tag, name)) = listed.next()? {
            if tag == DNS_NAME && names.len() < NAMES_MAX {
                names.push(String::from_utf8(name.to_vec()).ok()?);
            }
        }
    }
    Some(names)
}

/// What is left of values that follow one another.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Tag and content of the next value; `Some(None)` at the end, `None` for what cannot be read.
    fn next(&mut self) -> Option<Option<(u8, &'a [u8])>> {
        let Some((tag, rest)) = self.0.split_first() else { return Some(None) };
        let (first, mut rest) = rest.split_first()?;
        let length = match *first {
            short @ 0..=0x7f => usize::from(short),
            // More than this has no certificate that is read here.
            long @ 0x81..=0x83 => {
                let (digits, behind) = rest.split_at_checked(usize::from(long & 0x7f))?;
                rest = behind;
                digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
            }
            _ => return None,
        };
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some(Some((*tag, content)))
    }

    fn take(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next()?.filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
    }

    fn skip_if(&mut self, tag: u8) -> Option<()> {
        if self.0.first() == Some(&tag) {
            self.take(tag)?;
        }
        Some(())
    }

    /// `YYMMDDHHMMSSZ`, whose years begin with 1950, or `YYYYMMDDHHMMSSZ`.
    fn time(&mut self) -> Option<Millis> {
        let (tag, text) = self.next()??;
        let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
        let century = match (tag, text.len()) {
            (UTC_TIME, 13) if text < "50" => "20",
            (UTC_TIME, 13) => "19",
            (GENERALIZED_TIME, 15) => "",
            _ => return None,
        };
        let text = format!("{century}{text}");
        let part = |from: usize, to: usize| text.get(from..to);
        time(&format!(
            "{}-{}-{}T{}:{}:{}",
            part(0, 4)?,
            part(4, 6)?,
            part(6, 8)?,
            part(8, 10)?,
            part(10, 12)?,
            part(12, 15)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    fn made(names: &[&str], common_name: Option<&str>, years: (i32, i32)) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::OrganizationName, "Somebody");
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.not_before = rcgen::date_time_ymd(years.0, 1, 2);
        params.not_after = rcgen::date_time_ymd(years.1, 3, 4);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn names_and_times_are_read() {
        let read =
            CertificateTerms::read(&made(&["a.example", "b.example"], Some("c.example"), (1999, 2026)));
        let read = read.expect("a certificate");
        assert_eq!(read.names, ["a.example", "b.example"], "the common name says nothing then");
        let (from, until) = (time("1999-01-02T00:00:00Z"), time("2026-03-04T00:00:00Z"));
        assert_eq!((Some(read.from), Some(read.until)), (from, until));
        for (now, is_good) in [
            (read.from, true),
            (read.until, true),
            (Millis(read.from.0 - 1), false),
            (Millis(read.until.0 + 1), false),
        ] {
            assert_eq!(read.is_good_at(now), is_good);
        }
        let read =
            CertificateTerms::read(&made(&[], Some("c.example"), (2026, 2077))).expect("a certificate");
        assert_eq!(
            (read.names, Some(read.until)),
            (vec!["c.example".to_owned()], time("2077-03-04T00:00:00Z"))
        );
        let read = CertificateTerms::read(&made(&[], None, (2026, 2049))).expect("a certificate");
        assert_eq!(read.names, Vec::<String>::new());
    }

    /// Written by another implementation.
    #[test]
    fn a_certificate_of_somebody_else_is_read() {
        let pem = include_bytes!("../../tests/golden/sns-certificate.pem");
        let certificate = CertificateDer::from_pem_slice(pem).expect("a certificate");
        let read = CertificateTerms::read(&certificate).expect("terms");
        assert_eq!(read.names, ["sns.amazonaws.com"]);
        let times = (time("2026-01-01T00:00:00Z"), time("2046-01-01T00:00:00Z"));
        assert_eq!((Some(read.from), Some(read.until)), times);
        for length in 0..certificate.len() {
            assert_eq!(CertificateTerms::read(&certificate[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let read = CertificateTerms::read(&bytes);
            prop_assert!(read.is_none_or(|terms| terms.names.len() <= 2 * NAMES_MAX));
        }
    }
}

//! A certificate authority of our own, made at every start, and certificates for whatever name a client asks for.
//!
//! What must never happen: a key of the authority that outlives the process. Only its certificate is written down.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// Names that are kept; beyond it all are forgotten and made again when they are asked for.
const NAMES_MAX: usize = 1_000;
/// What a client gets that names nobody.
const NAME_BY_DEFAULT: &str = "localhost";

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// One key for all certificates: making one for each name would buy nothing here.
    leaf: KeyPair,
    issued: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("no certificate could be made: {cause}")]
    NotMade { cause: String },
    #[error("TLS cannot be used: {cause}")]
    Unusable { cause: String },
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authority")
    }
}

impl Authority {
    pub fn new() -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new()).map_err(not_made)?;
        params.distinguished_name.push(DnType::CommonName, "Fantail sandbox");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(not_made)?);
        Ok(Self {
            issuer: issuer.map_err(not_made)?,
            leaf: KeyPair::generate().map_err(not_made)?,
            issued: Mutex::new(HashMap::new()),
        })
    }

    /// What a client has to trust.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Offers HTTP/2 and HTTP/1.1; a client that offers nothing is served too.
    pub fn acceptor(self: &Arc<Self>, protocols: &[&[u8]]) -> Result<TlsAcceptor, AuthorityError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| AuthorityError::Unusable { cause: error.to_string() })?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn certificate(&self, name: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = issued.get(name) {
            return Ok(Arc::clone(known));
        }
        if issued.len() >= NAMES_MAX {
            issued.clear();
        }
        let made = Arc::new(self.issue(name)?);
        issued.insert(name.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    /// Every certificate is good for this machine too, because some clients check the address they connect to.
    fn issue(&self, name: &str) -> Result<CertifiedKey, AuthorityError> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(not_made)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        let certificate = params.signed_by(&self.leaf, &self.issuer).map_err(not_made)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf.serialize_der()));
        let key = aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|error| AuthorityError::NotMade { cause: error.to_string() })?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate(hello.server_name().unwrap_or(NAME_BY_DEFAULT)).ok()
    }
}

fn not_made(error: rcgen::Error) -> AuthorityError {
    AuthorityError::NotMade { cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_certificate_and_strange_names_are_no_danger() {
        let authority = Authority::new().expect("an authority");
        let first = authority.certificate("api.push.apple.com").expect("a certificate");
        let again = authority.certificate("api.push.apple.com").expect("a certificate");
        assert_eq!(first.cert, again.cert);
        assert_ne!(first.cert, authority.certificate("api.twilio.com").expect("a certificate").cert);
        assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
    }
}

//! What we trust when we connect: the roots of the web, compiled in, and those an operator adds.

use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificates cannot be read: {cause}")]
    BadRoots { cause: String },
    #[error("TLS cannot be used: {cause}")]
    Unusable { cause: String },
}

/// The same on every machine and in an empty container. `extra_roots_pem` may be empty; `protocols` are offered in their order.
pub fn client(extra_roots_pem: &[u8], protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, TlsError> {
    let bad = |cause: String| TlsError::BadRoots { cause };
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let mut extra = 0;
    for root in CertificateDer::pem_slice_iter(extra_roots_pem) {
        let root = root.map_err(|error| bad(error.to_string()))?;
        roots.add(root).map_err(|error| bad(error.to_string()))?;
        extra += 1;
    }
    if extra == 0 && !extra_roots_pem.is_empty() {
        return Err(bad("no certificate found".to_owned()));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Unusable { cause: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(client(b"", &[b"h2"]).is_ok());
        for bad in ["no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(client(bad.as_bytes(), &[]), Err(TlsError::BadRoots { .. })), "{bad}");
        }
    }
}

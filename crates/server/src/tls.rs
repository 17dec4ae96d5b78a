//! TLS 1.3 with the one crypto provider that everything else uses.

use crate::config::Tls;
use anyhow::{Context, Result};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let (cert, key) = (tls.cert.display(), tls.key.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.cert)
        .with_context(|| format!("cannot read the certificate {cert}"))?
        .collect::<Result<_, _>>()
        .with_context(|| format!("{cert} is not a PEM certificate chain"))?;
    anyhow::ensure!(!chain.is_empty(), "{cert} holds no certificate");
    let private = PrivateKeyDer::from_pem_file(&tls.key)
        .with_context(|| format!("cannot read the private key {key}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .context("the crypto provider has no TLS 1.3")?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("the key {key} does not belong to the certificate {cert}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

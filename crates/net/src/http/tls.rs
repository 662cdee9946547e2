//! TLS of a client, by rustls. It trusts the authorities that the system trusts.

use std::{
    env,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// Where distributions keep the certificates of authorities: Debian, Fedora, openSUSE, Alpine and BSD.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The file of the authorities' certificates: that of `SSL_CERT_FILE`, as for OpenSSL and curl, or else that of the system.
pub(super) fn bundle() -> PathBuf {
    let own = env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = || BUNDLES.iter().map(PathBuf::from).find(|path| path.exists());
    own.or_else(found).unwrap_or_else(|| BUNDLES[0].into())
}

/// A connection over `server` to the host of this name or address, whose certificate one of the authorities in the file `bundle` must
/// have signed.
pub(super) fn connect<S: Read + Write>(
    host: &str,
    bundle: &Path,
    server: S,
) -> io::Result<StreamOwned<ClientConnection, S>> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(bundle).into_iter().flatten().filter_map(Result::ok);
    let (known, _) = roots.add_parsable_certificates(found);
    if known == 0 {
        let file = bundle.display();
        return Err(wrong(format!(
            "{file}: no certificates of authorities: install ca-certificates, or name a PEM file by SSL_CERT_FILE"
        )));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut secured = StreamOwned::new(client, server);
    match secured.conn.complete_io(&mut secured.sock) {
        Ok(_) => Ok(secured),
        Err(error) => Err(fix(&error, bundle).map_or(error, io::Error::other)),
    }
}

/// What is wrong with the certificate, and what helps.
fn fix(error: &io::Error, bundle: &Path) -> Option<String> {
    let rustls::Error::InvalidCertificate(why) = error.get_ref()?.downcast_ref()? else { return None };
    Some(match why {
        CertificateError::UnknownIssuer => format!(
            "no authority in {} has signed the certificate of the server: add it to a PEM file, and name the file by SSL_CERT_FILE",
            bundle.display()
        ),
        // webpki has no public name for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority, not of a server: make one with basicConstraints=CA:FALSE".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        thread,
    };

    use rustls::{ServerConfig, ServerConnection, pki_types::PrivateKeyDer};

    use super::*;

    /// A certificate in a file (RFC 7468).
    fn pem(der: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |bytes: &[u8]| {
            let bits =
                (0..3).fold(0_usize, |bits, place| bits << 8 | usize::from(*bytes.get(place).unwrap_or(&0)));
            let digit = |place: usize| {
                if bytes.len() < place { '=' } else { char::from(DIGITS[bits >> (18 - 6 * place) & 63]) }
            };
            (0..4).map(digit).collect::<String>()
        };
        let lines = der.chunks(48).map(|line| line.chunks(3).map(group).collect::<String>() + "\n");
        format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
    }

    /// A server with a certificate for `name`, the file of that certificate, and what it reads.
    fn server(
        name: &str,
        is_authority: bool,
    ) -> (std::net::SocketAddr, tempfile::NamedTempFile, thread::JoinHandle<io::Result<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        // Another authority has another name.
        parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("authority of {address}"));
        if is_authority {
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        let made = parameters.self_signed(&own).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(pem(made.der()).as_bytes()).unwrap();
        let key = PrivateKeyDer::try_from(own.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.der().clone()], key)
            .unwrap();
        let serving = thread::spawn(move || {
            let (client, _) = listener.accept()?;
            let session = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
            let mut client = StreamOwned::new(session, client);
            let mut read = [0; 1024];
            let length = client.read(&mut read)?;
            client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            client.flush()?;
            Ok(String::from_utf8_lossy(read.split_at(length).0).into_owned())
        });
        (address, file, serving)
    }

    fn ask(host: &str, bundle: &Path, address: std::net::SocketAddr) -> io::Result<String> {
        let mut secured = connect(host, bundle, TcpStream::connect(address)?)?;
        secured.write_all(b"POST /in HTTP/1.1\r\n\r\n")?;
        let mut answer = [0; 27];
        secured.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[test]
    fn only_a_host_that_an_authority_has_signed_is_told() {
        let (address, own, serving) = server("alerts.example", false);
        assert_eq!(ask("alerts.example", own.path(), address).unwrap(), "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(serving.join().unwrap().unwrap(), "POST /in HTTP/1.1\r\n\r\n");

        // Another name, another authority, no authority: nothing is sent.
        let (other, theirs, _) = server("alerts.example", false);
        let error = ask("other.example", theirs.path(), other).unwrap_err().to_string();
        assert!(error.contains("not valid for name"), "{error}");
        let (third, _file, serving) = server("alerts.example", false);
        let error = ask("alerts.example", own.path(), third).unwrap_err().to_string();
        assert!(error.contains("has signed the certificate of the server: add it to a PEM file"), "{error}");
        assert!(serving.join().unwrap().is_err());
        let (fourth, theirs, _) = server("alerts.example", true);
        let error = ask("alerts.example", theirs.path(), fourth).unwrap_err().to_string();
        assert!(error.contains("make one with basicConstraints=CA:FALSE"), "{error}");
        let empty = tempfile::NamedTempFile::new().unwrap();
        let error = ask("alerts.example", empty.path(), address).unwrap_err();
        let text = error.to_string();
        assert!(
            error.kind() == io::ErrorKind::ConnectionRefused
                || text.contains("no certificates of authorities"),
            "{text}"
        );
    }
}

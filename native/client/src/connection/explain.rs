//! Explanation of connections that fail before their first response, in terms of the settings.

use std::io::{Error as IoError, ErrorKind};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error as TlsError};

use super::is_closed;
use crate::error::{Error, Result};
use crate::settings::ConnectionSettings;

const DAY_S: u64 = 86_400;

/// Explain the result of the first exchange. A rejected certificate is a permanent error, like a refused login. A
/// closed connection may mean that the broker stops. Before the broker's first response, it may also mean that the
/// listener has another security protocol.
pub(super) fn explained<T>(outcome: Result<T>, settings: &ConnectionSettings) -> Result<T> {
    outcome.map_err(|problem| match problem {
        Error::Network { broker, problem } => explain(broker, problem, settings),
        other => other,
    })
}

fn explain(broker: String, problem: IoError, settings: &ConnectionSettings) -> Error {
    let cause = problem.get_ref().and_then(|cause| cause.downcast_ref());
    if let Some(text) = cause.and_then(|cause| final_trouble(cause, settings)) {
        return Error::Setting(format!("TLS to {broker}: {text}"));
    }
    let ask = |what: &dyn std::fmt::Display, kind: ErrorKind| {
        IoError::new(kind, format!("{what}: {}", settings.doubt()))
    };
    let problem = match cause {
        Some(TlsError::InvalidMessage(_)) => ask(&"the answer is not TLS", problem.kind()),
        _ if is_closed(&problem) && !settings.answered.has(&broker) => {
            ask(&problem, problem.kind())
        }
        _ => problem,
    };
    Error::Network { broker, problem }
}

/// Return a permanent error if retries cannot solve the problem.
fn final_trouble(problem: &TlsError, settings: &ConnectionSettings) -> Option<String> {
    match problem {
        TlsError::InvalidCertificate(problem) => Some(untrusted(problem, settings.prefix)),
        TlsError::NoCertificatesPresented => Some("the broker shows no certificate".into()),
        TlsError::PeerIncompatible(problem) => Some(format!(
            "the two sides have no TLS version or cipher suite in common ({})",
            name_of(problem)
        )),
        TlsError::AlertReceived(alert) => refused(*alert, settings),
        _ => None,
    }
}

/// Return why the broker's certificate is rejected.
fn untrusted(problem: &CertificateError, prefix: &str) -> String {
    use CertificateError as Problem;
    let text = match problem {
        Problem::UnknownIssuer => format!(
            "the broker's certificate is signed by a CA that is not trusted here: name its CA in \
             {prefix}ssl.truststore.location"
        ),
        Problem::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let names = match names.is_empty() {
                true => "no name at all".into(),
                false => names.join(", "),
            };
            let expected = expected.to_str();
            format!("the broker's certificate is for {names}, not for {expected}")
        }
        Problem::NotValidForName => "the broker's certificate is for another name".into(),
        Problem::ExpiredContext { time, not_after } => format!(
            "the broker's certificate expired {} ago by this machine's clock",
            between(*not_after, *time)
        ),
        Problem::Expired => "the broker's certificate has expired".into(),
        Problem::NotValidYetContext { time, not_before } => format!(
            "the broker's certificate becomes valid in {} by this machine's clock",
            between(*time, *not_before)
        ),
        Problem::NotValidYet => "the broker's certificate is not valid yet".into(),
        Problem::Revoked => {
            format!("the broker's certificate is revoked, says {prefix}ssl.crl.location")
        }
        Problem::UnknownRevocationStatus => format!(
            "{prefix}ssl.crl.location has no list of an authority that vouches for the broker's certificate"
        ),
        Problem::ExpiredRevocationList | Problem::ExpiredRevocationListContext { .. } => format!(
            "the list in {prefix}ssl.crl.location is out of date, of an authority that vouches for the broker's \
             certificate: put its newer one there"
        ),
        Problem::BadEncoding => "the broker's certificate cannot be read".into(),
        Problem::BadSignature => "the broker's certificate has a wrong signature".into(),
        Problem::InvalidPurpose | Problem::InvalidPurposeContext { .. } => {
            "the broker's certificate is not one for servers".into()
        }
        Problem::UnsupportedSignatureAlgorithmContext { .. }
        | Problem::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the broker's certificate is signed in a way that is not supported".into()
        }
        Problem::Other(other) => {
            let name = leading_word(&other.0.to_string());
            let text = match name.as_str() {
                "CaUsedAsEndEntity" => {
                    "a CA's certificate is shown as the broker's own: sign a server certificate with it"
                }
                _ => "the broker's certificate is not accepted",
            };
            return format!("{text} ({name})");
        }
        _ => "the broker's certificate is not accepted".into(),
    };
    format!("{text} ({})", name_of(problem))
}

/// Return why the broker rejects this client, if the TLS alert says so.
fn refused(alert: AlertDescription, settings: &ConnectionSettings) -> Option<String> {
    use AlertDescription as Alert;
    let name = name_of(&alert);
    let why = match alert {
        Alert::HandshakeFailure
        | Alert::ProtocolVersion
        | Alert::InsufficientSecurity
        | Alert::NoApplicationProtocol => {
            return Some(format!(
                "the broker finds no TLS version or cipher suite in common, or misses a client certificate ({name})"
            ));
        }
        Alert::UnrecognisedName => {
            return Some(format!(
                "the broker has no certificate for this name ({name})"
            ));
        }
        Alert::UnknownCA => ", whose CA it does not trust",
        Alert::CertificateExpired => ", which has expired",
        Alert::CertificateRevoked => ", which is revoked",
        Alert::NoCertificate
        | Alert::CertificateRequired
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::AccessDenied
        | Alert::DecryptError => "",
        _ => return None,
    };
    Some(match &settings.tls.certificate {
        Some(file) => file
            .unusable(&format_args!(
                "the broker refuses this client certificate{why} ({name})"
            ))
            .to_string(),
        None => {
            let prefix = settings.prefix;
            format!(
                "the broker wants a client certificate ({name}): set {prefix}ssl.keystore.location, or \
                 {prefix}ssl.certificate.location and {prefix}ssl.key.location"
            )
        }
    })
}

/// Return the content of `DnsName("a")` or `IpAddress(b)`, as rustls prints names in a certificate.
fn bare(name: &str) -> &str {
    let inside = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(name).trim_matches('"')
}

fn between(earlier: UnixTime, later: UnixTime) -> String {
    let seconds = later.as_secs().saturating_sub(earlier.as_secs());
    match seconds {
        0..DAY_S => format!("{seconds} s"),
        _ => format!("{} d", seconds / DAY_S),
    }
}

/// Return the name of an enum variant, which users can look up.
fn name_of(problem: &dyn std::fmt::Debug) -> String {
    let name = leading_word(&format!("{problem:?}"));
    name.strip_suffix("Context")
        .map(str::to_owned)
        .unwrap_or(name)
}

fn leading_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use pybroker_protocol::ErrorCode;
    use rustls::pki_types::ServerName;
    use rustls::{InvalidMessage, OtherError, PeerIncompatible};

    use super::*;
    use crate::test_broker::{settings_of, texts};

    fn told(problem: IoError, more: &[(&str, &str)]) -> Error {
        let broker = "kafka:9093".to_owned();
        explained::<()>(Err(Error::Network { broker, problem }), &settings(more))
            .expect_err("trouble")
    }

    fn settings(more: &[(&str, &str)]) -> ConnectionSettings {
        let given = [("bootstrap.servers", "a:1"), ("security.protocol", "SSL")];
        settings_of(&texts(given.iter().chain(more))).connection
    }

    fn tls(problem: TlsError) -> IoError {
        IoError::new(ErrorKind::InvalidData, problem)
    }

    fn at(days: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(days * DAY_S))
    }

    #[track_caller]
    fn is_final(problem: TlsError, more: &[(&str, &str)], expected: &str) {
        let problem = told(tls(problem), more);
        assert_eq!(problem.code(), ErrorCode::INVALID_CONFIG);
        assert!(!problem.may_pass());
        assert_eq!(
            problem.to_string(),
            format!("TLS to kafka:9093: {expected}")
        );
    }

    #[test]
    fn a_certificate_of_the_broker_that_is_not_accepted_is_final_and_told_in_words() {
        use CertificateError as Problem;
        let expected = ServerName::try_from("kafka").expect("a name");
        // webpki's messages are the names of its variants.
        let ca = OtherError(Arc::new(IoError::other("CaUsedAsEndEntity")));
        let presented = vec![r#"DnsName("b.example")"#.into(), "IpAddress(::1)".into()];
        for (problem, text) in [
            (
                Problem::UnknownIssuer,
                "the broker's certificate is signed by a CA that is not trusted here: name its CA in \
                 kafka.ssl.truststore.location (UnknownIssuer)",
            ),
            (
                Problem::NotValidForNameContext {
                    expected: expected.clone(),
                    presented,
                },
                "the broker's certificate is for b.example, ::1, not for kafka (NotValidForName)",
            ),
            (
                Problem::NotValidForNameContext {
                    expected,
                    presented: vec![],
                },
                "the broker's certificate is for no name at all, not for kafka (NotValidForName)",
            ),
            (
                Problem::ExpiredContext {
                    time: at(9),
                    not_after: at(2),
                },
                "the broker's certificate expired 7 d ago by this machine's clock (Expired)",
            ),
            (
                Problem::Other(ca),
                "a CA's certificate is shown as the broker's own: sign a server certificate with it \
                 (CaUsedAsEndEntity)",
            ),
        ] {
            is_final(TlsError::InvalidCertificate(problem), &[], text);
        }
        is_final(
            TlsError::NoCertificatesPresented,
            &[],
            "the broker shows no certificate",
        );
        is_final(
            TlsError::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            &[],
            "the two sides have no TLS version or cipher suite in common (NoCipherSuitesInCommon)",
        );
    }

    #[test]
    fn a_broker_that_refuses_the_clients_certificate_is_final() {
        for alert in [
            AlertDescription::CertificateRequired,
            AlertDescription::BadCertificate,
        ] {
            let text = format!(
                "the broker wants a client certificate ({}): set kafka.ssl.keystore.location, or \
                 kafka.ssl.certificate.location and kafka.ssl.key.location",
                name_of(&alert)
            );
            is_final(TlsError::AlertReceived(alert), &[], &text);
        }
        for (alert, text) in [
            (
                AlertDescription::UnknownCA,
                ", whose CA it does not trust (UnknownCA)",
            ),
            (AlertDescription::AccessDenied, " (AccessDenied)"),
        ] {
            let text = format!(
                "kafka.ssl.keystore.location=/me.pem: the broker refuses this client certificate{text}"
            );
            let file = [("ssl.keystore.location", "/me.pem")];
            is_final(TlsError::AlertReceived(alert), &file, &text);
        }
    }

    #[test]
    fn what_may_be_a_broker_in_trouble_is_tried_again() {
        let question = "does kafka.security.protocol=SSL fit this listener?";
        let closed = || IoError::from(ErrorKind::UnexpectedEof);
        let not_tls = tls(TlsError::InvalidMessage(InvalidMessage::InvalidContentType));
        let broken = tls(TlsError::AlertReceived(AlertDescription::InternalError));
        let late = IoError::new(ErrorKind::TimedOut, "late");
        for (problem, text) in [
            (closed(), format!("unexpected end of file: {question}")),
            (not_tls, format!("the answer is not TLS: {question}")),
            (broken, "received fatal alert: InternalError".into()),
            (late, "late".into()),
        ] {
            let problem = told(problem, &[]);
            assert!(matches!(problem, Error::Network { .. }) && problem.may_pass());
            assert!(
                problem
                    .to_string()
                    .starts_with(&format!("kafka:9093: {text}")),
                "{problem}"
            );
        }
        let settings_that_fit = settings(&[]);
        settings_that_fit.answered.note("kafka:9093");
        let problem = Error::Network {
            broker: "kafka:9093".into(),
            problem: closed(),
        };
        let cut = explained::<()>(Err(problem), &settings_that_fit.clone()).expect_err("trouble");
        assert!(cut.may_pass());
        assert!(!cut.to_string().contains(question), "{cut}");
        // After the first response, errors get no explanation.
        let refused = Error::refused(ErrorCode::INVALID_REQUEST, "ApiVersions", None);
        let text = refused.to_string();
        let same = explained::<()>(Err(refused), &settings(&[])).expect_err("as it was");
        assert_eq!(same.to_string(), text);
    }
}

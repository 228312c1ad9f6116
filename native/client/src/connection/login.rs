//! SASL: PLAIN (RFC 4616), SCRAM-SHA-256/512 (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628) inside SaslAuthenticate
//! (KIP-152).

use std::io::Read;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_protocol::{ApiKey, ErrorCode};
use ring::rand::SecureRandom;
use ring::{digest, hmac, pbkdf2};

use super::Connection;
use crate::error::{Error, Result};
use crate::settings::ConnectionSettings;

const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 1;
/// Maximum number of iterations, far above any real server's. Without a limit, a hostile server could keep a client
/// busy.
const ITERATIONS_MAX: u32 = 1 << 20;
/// Maximum size of a token.
const TOKEN_BYTES_MAX: u64 = 1 << 20;

pub(super) fn log_in(connection: &mut Connection, settings: &ConnectionSettings) -> Result<()> {
    let sasl = &settings.sasl;
    let mechanism = sasl.mechanism.as_str();
    let scram = match mechanism {
        "OAUTHBEARER" => {
            let token = token(&sasl.token_file).map_err(|problem| {
                Error::Setting(format!("token {}: {problem}", sasl.token_file))
            })?;
            handshake(connection, mechanism)?;
            return bear(connection, &token);
        }
        "PLAIN" => None,
        "SCRAM-SHA-256" => Some(Scram::SHA_256),
        "SCRAM-SHA-512" => Some(Scram::SHA_512),
        other => {
            return Err(Error::Setting(format!(
                "{}sasl.mechanism={other}: expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
                settings.prefix
            )));
        }
    };
    handshake(connection, mechanism)?;
    let (user, password) = (&sasl.username, &sasl.password);
    match scram {
        None => authenticate(connection, format!("\0{user}\0{password}").as_bytes()).map(|_| ()),
        Some(scram) => scram.run(connection, user, password, sasl.delegation_token),
    }
}

/// Read the token from a file, without surrounding whitespace.
fn token(path: &str) -> core::result::Result<String, String> {
    let mut content = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut content))
        .map_err(|problem| problem.to_string())?;
    let token = content.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("there is no token in it".into());
    }
    Ok(token.to_owned())
}

/// Send the token. The broker answers an invalid token with a JSON text. After the client has acknowledged that text,
/// the broker fails the login.
fn bear(connection: &mut Connection, token: &str) -> Result<()> {
    let said = format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}");
    if authenticate(connection, said.as_bytes())?.is_empty() {
        return Ok(());
    }
    authenticate(connection, b"\x01")?;
    Err(Error::Protocol {
        broker: connection.address().to_owned(),
        problem: "OAUTHBEARER: the broker refused the token but then accepted the login".into(),
    })
}

fn handshake(connection: &mut Connection, mechanism: &str) -> Result<()> {
    let mut body = Vec::new();
    Writer::new(&mut body, false).string(mechanism);
    let key = ApiKey::SaslHandshake as i16;
    let answer = connection.call(key, HANDSHAKE_VERSION, &body)?;
    let read = || -> core::result::Result<(i16, Vec<&str>), DecodeError> {
        let mut reader = Reader::new(&answer);
        let code = reader.i16()?;
        let count = reader.array_len(false, 2)?;
        let names = (0..count).map(|_| reader.string(false));
        Ok((code, names.collect::<core::result::Result<_, _>>()?))
    };
    match read().map_err(|error| Error::decode(connection.address(), error))? {
        (0, _) => Ok(()),
        (code, offered) => Err(Error::refused(
            ErrorCode(code),
            format!("SASL mechanism {mechanism} at {}", connection.address()),
            Some(&match offered.is_empty() {
                true => "the broker offers none".into(),
                false => format!("the broker offers {}", offered.join(", ")),
            }),
        )),
    }
}

fn authenticate(connection: &mut Connection, token: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    Writer::new(&mut body, false).bytes(token);
    let key = ApiKey::SaslAuthenticate as i16;
    let answer = connection.call(key, AUTHENTICATE_VERSION, &body)?;
    let read = || -> core::result::Result<(i16, Option<&str>, &[u8]), DecodeError> {
        let mut reader = Reader::new(&answer);
        Ok((
            reader.i16()?,
            reader.nullable_string(false)?,
            reader.bytes(false)?,
        ))
    };
    match read().map_err(|error| Error::decode(connection.address(), error))? {
        (0, _, token) => Ok(token.to_vec()),
        (code, message, _) => Err(Error::refused(
            ErrorCode(code),
            format!("login at {}", connection.address()),
            message,
        )),
    }
}

#[derive(Clone, Copy)]
struct Scram {
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

impl Scram {
    const SHA_256: Self = Self {
        hmac: hmac::HMAC_SHA256,
        digest: &digest::SHA256,
        pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256,
    };
    const SHA_512: Self = Self {
        hmac: hmac::HMAC_SHA512,
        digest: &digest::SHA512,
        pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512,
    };

    fn run(
        self,
        connection: &mut Connection,
        user: &str,
        password: &str,
        delegation_token: bool,
    ) -> Result<()> {
        let mut nonce = [0u8; 24];
        ring::rand::SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| Error::Setting("the system gives no random bytes".into()))?;
        let first = format!(
            "n={},r={}{}",
            user.replace('=', "=3D").replace(',', "=2C"),
            BASE64.encode(nonce),
            if delegation_token {
                ",tokenauth=true"
            } else {
                ""
            }
        );
        let server_first = authenticate(connection, format!("n,,{first}").as_bytes())?;
        let broken = |problem: &str, connection: &Connection| Error::Protocol {
            broker: connection.address().to_owned(),
            problem: format!("SCRAM: {problem}"),
        };
        let (last, expected) = self
            .last_message(&first, &server_first, password)
            .map_err(|problem| broken(problem, connection))?;
        let server_last = authenticate(connection, last.as_bytes())?;
        // The server must prove that it knows the password too. Otherwise any server could receive the data.
        if server_last != expected.as_bytes() {
            return Err(broken("the server's signature is wrong", connection));
        }
        Ok(())
    }

    /// Return the client's last message, and the server's expected last message.
    fn last_message(
        self,
        first: &str,
        server_first: &[u8],
        password: &str,
    ) -> core::result::Result<(String, String), &'static str> {
        let server_first = core::str::from_utf8(server_first).map_err(|_| "not text")?;
        let field = |name: &str| {
            server_first
                .split(',')
                .find_map(|part| part.strip_prefix(name))
                .ok_or("a field is missing")
        };
        let nonce = field("r=")?;
        let mut parts = first.split(',');
        let ours = parts
            .find_map(|part| part.strip_prefix("r="))
            .unwrap_or_default();
        if !nonce.starts_with(ours) {
            return Err("the server's nonce does not begin with the client's nonce");
        }
        let salt = BASE64
            .decode(field("s=")?)
            .map_err(|_| "the salt is not base64")?;
        let rounds: u32 = field("i=")?
            .parse()
            .map_err(|_| "the number of iterations is not a number")?;
        let rounds = NonZeroU32::new(rounds)
            .filter(|rounds| rounds.get() <= ITERATIONS_MAX)
            .ok_or("the number of iterations is 0 or too large")?;
        let mut salted = vec![0; self.digest.output_len()];
        pbkdf2::derive(self.pbkdf2, rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], data: &[u8]| hmac::sign(&hmac::Key::new(self.hmac, key), data);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(self.digest, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let auth_message = format!("{first},{server_first},{without_proof}");
        let signature = sign(stored_key.as_ref(), auth_message.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(a, b)| a ^ b)
            .collect();
        let server_key = sign(&salted, b"Server Key");
        let server_signature = sign(server_key.as_ref(), auth_message.as_bytes());
        Ok((
            format!("{without_proof},p={}", BASE64.encode(proof)),
            format!("v={}", BASE64.encode(server_signature)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example exchange of RFC 7677, section 3.
    #[test]
    fn scram_sha_256_is_the_rfcs() {
        let first = "n=user,r=rOprNGfwEbeRWgbNEkqO";
        let server = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, expected) = Scram::SHA_256
            .last_message(first, server, "pencil")
            .expect("a proof");
        assert!(last.ends_with("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        assert_eq!(expected, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn hostile_servers_are_refused() {
        let first = "n=user,r=abc";
        for server in [
            &b"r=xyz,s=QQ==,i=4096"[..],
            b"r=abcd,s=QQ==,i=0",
            b"r=abcd,s=QQ==,i=4294967295",
            b"r=abcd,s=!,i=1",
            b"",
            &[0xff],
        ] {
            assert!(Scram::SHA_256.last_message(first, server, "p").is_err());
        }
    }
}

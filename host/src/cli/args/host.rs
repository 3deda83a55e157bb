//! What has to do with a host as such: where it listens or is, who may ask, TLS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::GENERAL;
use crate::config::{self, Defaults};
use crate::error::{Error, Kind, Result};

/// How a host is reached stands together in the help.
const ACCESS: &str = "Access to the host";

/// As in Flink.
const DEFAULT_LISTEN: &str = "127.0.0.1:8081";
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8081";

/// Defaults for job files.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct HostFile {
    /// A TOML file with defaults for what job files leave out of [checkpoint], [state] and [job.restart]
    #[arg(long, env = "COFFERDAM_HOST_FILE", value_name = "FILE", help_heading = GENERAL)]
    host_file: Option<PathBuf>,
}

impl HostFile {
    /// What it says, if one is given.
    ///
    /// # Errors
    /// Kind `Config`: it can't be read, or has faults.
    pub(in crate::cli) fn read(&self) -> Result<Defaults> {
        config::load_host(self.host_file.as_deref())
    }
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ServeArgs {
    /// Where the host keeps its jobs and components, for itself alone; made if it is missing
    #[arg(long, env = "COFFERDAM_DATA_DIR", value_name = "DIR")]
    pub(in crate::cli) data_dir: PathBuf,

    /// Where to listen; port 0 is any that is free
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "ADDRESS:PORT", help_heading = ACCESS)]
    pub(in crate::cli) listen: SocketAddr,

    /// How long the last checkpoints of jobs may take when the host ends; a job that takes longer is left as if the host had been killed
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(in crate::cli) stop_timeout: Duration,

    #[command(flatten)]
    pub(in crate::cli) token: TokenArgs,

    #[command(flatten)]
    pub(in crate::cli) tls: TlsArgs,

    #[command(flatten)]
    pub(in crate::cli) host_file: HostFile,
}

/// What whoever asks a host must know.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TokenArgs {
    /// A file with the token that whoever asks the host must know, in place of the variable COFFERDAM_TOKEN
    #[arg(long, value_name = "FILE", help_heading = ACCESS)]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token, if one is given.
    ///
    /// # Errors
    /// Kind `Request`: it can't be read, or is empty.
    pub(in crate::cli) fn read(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .map_err(|error| Error::new(Kind::Request, format!("the token file {} can't be read: {error}", file.display())))?,
            ),
            None => std::env::var("COFFERDAM_TOKEN").ok(),
        };
        let token = token.map(|token| token.trim().to_owned());
        let is_sent = |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        match token {
            Some(token) if !is_sent(&token) => {
                Err(Error::new(Kind::Request, "the token is empty, or has other than visible ASCII characters in it"))
            }
            token => Ok(token),
        }
    }
}

/// How a host speaks TLS.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct TlsArgs {
    /// Speak TLS, with this certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = ACCESS)]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = ACCESS)]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Certificate and key.
    pub(in crate::cli) fn both(self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert.zip(self.tls_key)
    }
}

/// Which host is asked.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct HostArgs {
    /// Where the host is
    #[arg(long, env = "COFFERDAM_ADDRESS", default_value = DEFAULT_ADDRESS, value_name = "URL", help_heading = ACCESS)]
    pub(in crate::cli) address: String,

    #[command(flatten)]
    pub(in crate::cli) token: TokenArgs,

    /// A file of certificates in PEM that are trusted besides the system's, if the host speaks TLS
    #[arg(long, env = "COFFERDAM_CA_CERT", value_name = "FILE", help_heading = ACCESS)]
    pub(in crate::cli) ca_cert: Option<PathBuf>,
}

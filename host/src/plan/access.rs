//! [`Access`]: how a bucket is reached. What it leaves open comes from the environment, as with the services' own tools.

use std::path::PathBuf;
use std::time::Duration;

/// How a bucket is reached, as `[checkpoint.s3]`, `[checkpoint.gs]` or `[checkpoint.az]` says. It never holds a secret: those come
/// from the environment, from a file, or from the machine that the job runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The URL of the service; none: the one that the environment names, or the service's own.
    pub endpoint: Option<String>,
    /// The region of an S3 bucket; none: what the environment or the profile says, or `us-east-1`.
    pub region: Option<String>,
    /// Whether an S3 bucket is named in the path of requests; else in the name of the host.
    pub path_style: bool,
    /// Whether requests may go over connections that are not encrypted.
    pub allow_http: bool,
    /// A file with credentials, absolute: shared credentials for S3, application credentials for Google; none: the usual places.
    pub credentials_file: Option<PathBuf>,
    /// The profile in the file of shared credentials; none: `AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
    /// The Azure account; none: what the environment says.
    pub account: Option<String>,
    /// How long one request may take, answer included. A file that is written in parts has a request for each.
    pub request_timeout: Duration,
    /// How long something is tried again that is throttled or stays without an answer.
    pub retry_timeout: Duration,
}

impl Default for Access {
    fn default() -> Self {
        Access {
            endpoint: None,
            region: None,
            path_style: true,
            allow_http: false,
            credentials_file: None,
            profile: None,
            account: None,
            // A part of 8 MiB arrives in time at 280 kB/s.
            request_timeout: Duration::from_secs(30),
            // As long as a checkpoint may take.
            retry_timeout: Duration::from_secs(600),
        }
    }
}

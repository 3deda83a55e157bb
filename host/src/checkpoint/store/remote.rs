//! Buckets: the clients of object stores, how long they wait and how often they try again. What the job file leaves open, they take
//! from the environment.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};

use super::credentials;
use super::objects::Objects;
use crate::plan::{Access, ObjectPath, Service};
use crate::tls;

/// How long it is waited for a connection. Whoever does not answer by then is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a request may be tried with the signature that it was given at first. Temporary credentials are renewed 5 minutes before they
/// end, so one that is tried longer is to be made anew, which [`Objects`] does.
const SIGNED: Duration = Duration::from_secs(240);

/// The objects whose keys begin with `path`.
pub(super) fn objects(path: &ObjectPath, access: &Access) -> object_store::Result<Objects> {
    tls::choose_cryptography();
    let prefix = Key::parse(&path.key)?;
    // Pauses grow from 0.1 to 15 seconds and are drawn at random, so that many who are throttled don't come back together. Time is
    // what limits the tries, not their number.
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: usize::MAX, retry_timeout: SIGNED.min(access.retry_timeout) };
    let patience = access.retry_timeout;
    Ok(match path.service {
        Service::S3 => Objects::new(PrefixStore::new(s3(&path.bucket, access).with_retry(retry).build()?, prefix), patience),
        Service::Gs => Objects::new(PrefixStore::new(gs(&path.bucket, access).with_retry(retry).build()?, prefix), patience),
        Service::Az => Objects::new(PrefixStore::new(az(&path.bucket, access).with_retry(retry).build()?, prefix), patience),
    })
}

fn s3(bucket: &str, access: &Access) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_conditional_put(S3ConditionalPut::ETagMatch);
    for (key, value) in client_options(access, |key| builder.get_config_value(&AmazonS3ConfigKey::Client(key))) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if let Some(region) = &access.region {
        builder = builder.with_region(region);
    }
    if let Some(shared) = credentials::shared(access, |key| builder.get_config_value(key)) {
        if let (None, Some(region)) = (builder.get_config_value(&AmazonS3ConfigKey::Region), shared.region()) {
            builder = builder.with_region(region);
        }
        builder = builder.with_credentials(Arc::new(shared));
    }
    let named = |key| builder.get_config_value(&key);
    let endpoint = access.endpoint.clone().or_else(|| named(AmazonS3ConfigKey::S3Endpoint)).or_else(|| named(AmazonS3ConfigKey::Endpoint));
    builder = builder.with_virtual_hosted_style_request(!access.path_style);
    match endpoint {
        // With the bucket in the name of the host it is the whole name that the client wants to be told.
        Some(endpoint) if !access.path_style => {
            builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.replacen("://", &format!("://{bucket}."), 1))
        }
        Some(endpoint) => builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint),
        None => builder,
    }
}

fn gs(bucket: &str, access: &Access) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
    for (key, value) in client_options(access, |key| builder.get_config_value(&GoogleConfigKey::Client(key))) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if let Some(endpoint) = &access.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if let Some(file) = &access.credentials_file {
        builder = builder.with_application_credentials(file.to_string_lossy());
    }
    builder
}

fn az(container: &str, access: &Access) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    for (key, value) in client_options(access, |key| builder.get_config_value(&AzureConfigKey::Client(key))) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    if let Some(account) = &access.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &access.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    builder
}

/// What the job file says of connections, after what `environment` has said, and what follows from both.
fn client_options(access: &Access, environment: impl Fn(ClientConfigKey) -> Option<String>) -> Vec<(ClientConfigKey, String)> {
    let text = |time: Duration| humantime::format_duration(time).to_string();
    let mut options = vec![
        (ClientConfigKey::Timeout, text(access.request_timeout)),
        (ClientConfigKey::ConnectTimeout, text(CONNECT_TIMEOUT.min(access.request_timeout))),
    ];
    if access.allow_http {
        options.push((ClientConfigKey::AllowHttp, "true".into()));
    }
    let is_http_allowed = access.allow_http || environment(ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
    // Else there would be no client at all. What shows a certificate after all is not trusted then.
    if is_http_allowed && !has_certificates() {
        options.push((ClientConfigKey::NoSystemCertificates, "true".into()));
    }
    options
}

/// Whether the system has certificates with which those of servers can be checked.
fn has_certificates() -> bool {
    reqwest::Client::builder().build().is_ok()
}

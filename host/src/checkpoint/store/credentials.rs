//! The file of shared credentials that the tools of S3 keep: profiles with a key each. It is read anew for each request, so that keys
//! which are replaced while a job runs are taken. No error repeats what is in it.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use object_store::aws::{AmazonS3ConfigKey, AwsCredential};
use object_store::{CredentialProvider, Result};

use crate::plan::Access;

/// A profile in a file of shared credentials.
#[derive(Debug)]
pub(super) struct Shared {
    file: PathBuf,
    profile: String,
}

/// The profile that credentials are to come from. None: `environment` has them, or says how to get them; or nothing names a profile and
/// there is no file, and the machine is to be asked.
pub(super) fn shared(access: &Access, environment: impl Fn(&AmazonS3ConfigKey) -> Option<String>) -> Option<Shared> {
    let asked = access.credentials_file.is_some() || access.profile.is_some();
    let known = [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::WebIdentityTokenFile];
    if !asked && known.iter().any(|key| environment(key).is_some()) {
        return None;
    }
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = variable("AWS_PROFILE");
    let file = access.credentials_file.clone().or_else(|| variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from));
    let file = file.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".aws/credentials")))?;
    let profile = access.profile.clone().or(named.clone()).unwrap_or_else(|| "default".into());
    (asked || named.is_some() || file.exists()).then_some(Shared { file, profile })
}

impl Shared {
    /// The region that the profile names.
    pub(super) fn region(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        value(&text, &self.profile, "region").map(String::from)
    }

    async fn read(&self) -> std::result::Result<AwsCredential, String> {
        let Shared { file, profile } = self;
        let text = tokio::fs::read_to_string(file).await;
        let text = text.map_err(|error| format!("the credentials file {} can't be read: {error}", file.display()))?;
        let value = |key| value(&text, profile, key).map(String::from);
        match (value("aws_access_key_id"), value("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => Ok(AwsCredential { key_id, secret_key, token: value("aws_session_token") }),
            _ => Err(format!("the credentials file {} has no key of profile `{profile}`", file.display())),
        }
    }
}

impl CredentialProvider for Shared {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(&'a self) -> BoxFuture<'b, Result<Arc<AwsCredential>>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async {
            let read = self.read().await;
            read.map(Arc::new).map_err(|reason| object_store::Error::Generic { store: "credentials", source: reason.into() })
        })
    }
}

/// What `key` is in a profile: lines `key = value` below a line `[profile]`.
fn value<'a>(text: &'a str, profile: &str, key: &str) -> Option<&'a str> {
    let mut within = false;
    let mut found = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            within = name.0.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| within && name.trim() == key) {
            found = Some(value.trim()).filter(|value| !value.is_empty() && !name.is_empty());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# mine\n[default]\naws_access_key_id = AKID\naws_secret_access_key=s/e=c\n\n[ other ]\n ; no\naws_access_key_id=B\nregion = eu\n";

    #[test]
    fn a_profile_has_what_stands_below_its_name() {
        let read = |profile, key| value(FILE, profile, key);
        assert_eq!((read("default", "aws_access_key_id"), read("default", "aws_secret_access_key")), (Some("AKID"), Some("s/e=c")));
        assert_eq!((read("other", "aws_access_key_id"), read("other", "region")), (Some("B"), Some("eu")));
        assert_eq!((read("other", "aws_secret_access_key"), read("default", "region"), read("none", "region")), (None, None, None));
    }

    #[tokio::test]
    async fn keys_are_read_anew_and_a_missing_one_is_told_without_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Shared { file: dir.path().join("credentials"), profile: "default".into() };
        assert!(shared.get_credential().await.unwrap_err().to_string().contains("can't be read"));
        for secret in ["first", "second"] {
            std::fs::write(&shared.file, FILE.replace("s/e=c", secret)).unwrap();
            assert_eq!(shared.get_credential().await.unwrap().secret_key, secret);
        }
        let other = Shared { profile: "other".into(), ..shared };
        let error = other.get_credential().await.unwrap_err().to_string();
        assert!(error.contains("profile `other`") && !error.contains("AKID") && !error.contains("second"), "{error}");
    }
}

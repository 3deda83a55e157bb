//! [`Location`]: where checkpoints lie, in the local file system, in a bucket of an object store or in memory, as people write it and as
//! messages show it. Nothing here looks whether it is there.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Where a file or a directory of checkpoints lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the local file system.
    Path(PathBuf),
    /// In a bucket.
    Object(ObjectPath),
    /// In the memory of this process, by a key like those in a bucket.
    Memory(String),
}

/// An object in a bucket, or what its objects with a common prefix are taken for: a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPath {
    /// Whose bucket it is.
    pub service: Service,
    /// The bucket; with Azure, the container.
    pub bucket: String,
    /// The key or prefix, its parts divided by `/`; empty: the bucket itself.
    pub key: String,
}

/// A kind of object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3, and whatever speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 3] = [Service::S3, Service::Gs, Service::Az];

    /// The scheme of its URLs, which also names its table in a job file.
    pub fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Gs => "gs",
            Service::Az => "az",
        }
    }
}

impl Location {
    /// What an argument of the command line names, which may be a path that is no Unicode.
    ///
    /// # Errors
    /// As [`Location::from_str`].
    pub fn from_os(text: &OsStr) -> Result<Self, String> {
        text.to_str().map_or_else(|| Ok(Location::Path(text.into())), str::parse)
    }

    /// What `text` names, if what is put there outlasts the process.
    ///
    /// # Errors
    /// As [`Location::from_str`], and for `memory:`.
    pub fn lasting(text: &str) -> Result<Self, String> {
        if text.starts_with("memory:") {
            return Err("what is in memory ends with the process".into());
        }
        text.parse()
    }

    /// What lies at `path`, relative to here.
    pub fn join(&self, path: &str) -> Self {
        match self {
            Location::Path(here) => Location::Path(here.join(path)),
            Location::Object(here) => Location::Object(ObjectPath { key: below(&here.key, path), ..here.clone() }),
            Location::Memory(key) => Location::Memory(below(key, path)),
        }
    }

    /// The directory that it lies in; none at the top.
    pub fn parent(&self) -> Option<Self> {
        match self {
            Location::Path(path) => path.parent().map(Location::from),
            Location::Object(path) => Some(Location::Object(ObjectPath { key: above(&path.key)?.into(), ..path.clone() })),
            Location::Memory(key) => above(key).map(|key| Location::Memory(key.into())),
        }
    }

    /// The last part of it; none at the top, or if it is no Unicode.
    pub fn name(&self) -> Option<&str> {
        match self {
            Location::Path(path) => path.file_name()?.to_str(),
            Location::Object(ObjectPath { key, .. }) | Location::Memory(key) => key.rsplit('/').next().filter(|name| !name.is_empty()),
        }
    }
}

/// The key of what lies at `path`, relative to `key`.
fn below(key: &str, path: &str) -> String {
    if key.is_empty() { path.into() } else { format!("{key}/{path}") }
}

/// The key of what a key lies in; none at the top.
fn above(key: &str) -> Option<&str> {
    (!key.is_empty()).then(|| key.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// A key as it is written, without slashes at its end.
fn key(text: &str) -> Result<String, String> {
    let key = text.trim_end_matches('/');
    let part_fits = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    if !key.is_empty() && !key.split('/').all(part_fits) {
        return Err("between the slashes of a key there must be names other than . and ..".into());
    }
    Ok(key.into())
}

impl FromStr for Location {
    type Err = String;

    /// A path, `memory:`, or a `file://`, `s3://`, `gs://` or `az://` URL. Keys are taken as they stand: nothing in them is percent-decoded.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains('\0') {
            return Err("it names nothing".into());
        }
        if let Some(rest) = text.strip_prefix("memory:").filter(|rest| !rest.starts_with("//")) {
            return key(rest).map(Location::Memory);
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Location::Path(text.into())) };
        if scheme == "file" {
            let path = url::Url::parse(text).ok().and_then(|url| url.to_file_path().ok());
            return path.map(Location::Path).ok_or_else(|| "a file:// URL names no other machine and an absolute path".into());
        }
        let service = Service::ALL.into_iter().find(|service| service.scheme() == scheme);
        let service = service.ok_or_else(|| format!("`{scheme}://` is none of file://, s3://, gs:// and az://"))?;
        let (bucket, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(format!("after {scheme}:// comes the name of a bucket: letters, digits and . - _"));
        }
        Ok(Location::Object(ObjectPath { service, bucket: bucket.into(), key: key(rest)? }))
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Location::Path(path.into())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Location::Path(path)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Path(path) => path.display().fmt(f),
            Location::Object(ObjectPath { service, bucket, key }) if key.is_empty() => write!(f, "{}://{bucket}", service.scheme()),
            Location::Object(ObjectPath { service, bucket, key }) => write!(f, "{}://{bucket}/{key}", service.scheme()),
            Location::Memory(key) => write!(f, "memory:{key}"),
        }
    }
}

impl Serialize for Location {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        text.parse().unwrap()
    }

    #[test]
    fn locations_are_shown_as_they_are_written() {
        for text in ["checkpoints", "/a/b.json", "s3://b", "s3://my.bucket-1/a/b c%2F?", "gs://b/x", "az://b/x/y", "memory:", "memory:a/b"]
        {
            assert_eq!(at(text).to_string(), text);
        }
        assert_eq!(at("file:///a/b%20c"), Location::Path("/a/b c".into()));
        assert_eq!(at("s3://b/a/"), at("s3://b/a"));
        assert_eq!(at("s3://b/"), at("s3://b"));
    }

    #[test]
    fn what_names_no_place_is_refused_and_not_repeated() {
        for text in [
            "",
            "a\0b",
            "http://b/x",
            "s3://",
            "s3:///x",
            "s3://user:secret@b/x",
            "s3://b/a//b",
            "s3://b/../x",
            "file://b/x",
            "memory://b",
            "memory:/b",
            "memory:a/../b",
        ] {
            let reason = text.parse::<Location>().unwrap_err();
            assert!(!reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn parts_come_and_go_alike_on_disk_and_in_a_bucket() {
        for root in ["/data/checkpoints", "s3://bucket", "s3://bucket/prefix", "memory:prefix"] {
            let root = at(root);
            let run = root.join("job").join("run-0001");
            assert_eq!(run.join("log/1.json").to_string(), format!("{root}/job/run-0001/log/1.json"));
            assert_eq!(run.name(), Some("run-0001"));
            assert_eq!(run.parent().and_then(|job| job.parent()), Some(root));
        }
        assert_eq!((at("s3://bucket").parent(), at("s3://bucket").name()), (None, None));
    }
}

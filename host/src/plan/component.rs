//! [`ComponentRef`]: how a job names the component of an operator.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which component an operator runs. Without a host that keeps components, only a file can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComponentRef {
    /// A file; absolute, once the job file is read.
    File(PathBuf),
    /// By the name and version under which the host has it.
    Version {
        /// The name.
        name: String,
        /// The version.
        version: String,
    },
    /// By the BLAKE3 of its file, in hexadecimal.
    Digest(String),
}

impl FromStr for ComponentRef {
    type Err = String;

    /// 64 hexadecimal digits are a digest; `name@version` without a slash and without `.wasm` at its end is a version; all else is a path or a
    /// `file://` URL.
    fn from_str(text: &str) -> Result<Self, String> {
        if is_digest(text) {
            return Ok(ComponentRef::Digest(text.into()));
        }
        match text.split_once('@') {
            Some((name, version)) if !text.contains('/') && !text.ends_with(".wasm") => match (name, version) {
                ("", _) | (_, "") => Err("before the @ stands a name, and after it a version".into()),
                _ => Ok(ComponentRef::Version { name: name.into(), version: version.into() }),
            },
            _ => match text.parse()? {
                super::Location::Path(path) => Ok(ComponentRef::File(path)),
                super::Location::Object(_) | super::Location::Memory(_) => {
                    Err("a component is a local file, or one that the host has".into())
                }
            },
        }
    }
}

/// Whether it can be the digest of a component.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for ComponentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComponentRef::File(path) => path.display().fmt(f),
            ComponentRef::Version { name, version } => write!(f, "{name}@{version}"),
            ComponentRef::Digest(digest) => f.write_str(digest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_named_by_file_version_or_digest() {
        let version = ComponentRef::Version { name: "flights-parse".into(), version: "0.1.0".into() };
        assert_eq!("flights-parse@0.1.0".parse(), Ok(version.clone()));
        assert_eq!(version.to_string(), "flights-parse@0.1.0");
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(digest.parse(), Ok(ComponentRef::Digest(digest.clone())));
        for file in ["parse.wasm", "a@b.wasm", "dir/a@1", "parse", &digest[1..]] {
            assert_eq!(file.parse(), Ok(ComponentRef::File(file.into())), "{file}");
        }
        assert_eq!("file:///a/b".parse(), Ok(ComponentRef::File("/a/b".into())));
        for wrong in ["", "@1", "a@", "s3://bucket/a.wasm"] {
            assert!(wrong.parse::<ComponentRef>().is_err(), "{wrong}");
        }
    }
}

//! The text of log entries: JSON that people can read, whose last field is the crc32c of everything before it, so that one altered
//! byte, or a missing end, is noticed and named.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::LogEntry;

/// The version of the text form that this program writes, and the newest that it reads.
pub const FORMAT: u64 = 1;

/// What stands between the text that the checksum covers and its eight digits.
const SEAL: &str = ",\n  \"crc32c\": \"";
/// What stands after them.
const END: &str = "\"\n}\n";
/// Hexadecimal digits of the checksum.
const DIGITS: usize = 8;

/// Why bytes can't be taken for a log entry. One line each; whoever knows the file puts its path before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// The file is empty.
    Empty,
    /// Its end is missing.
    Truncated,
    /// It is not what was written.
    Altered,
    /// It is no entry of a log.
    Foreign,
    /// A newer program has written it, in this format.
    Newer(u64),
    /// The text is as it was written, but it makes no sense.
    Malformed(String),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::Empty => f.write_str("the file is empty"),
            ManifestError::Truncated => f.write_str("the file is truncated: it does not end with its checksum"),
            ManifestError::Altered => f.write_str("the file was altered after it was written: its checksum does not match"),
            ManifestError::Foreign => f.write_str("this is neither a manifest nor a claim of Cofferdam"),
            ManifestError::Newer(found) => {
                write!(f, "the manifest was written by a newer Cofferdam: format {found}, this one reads up to {FORMAT}")
            }
            ManifestError::Malformed(reason) => write!(f, "the manifest is malformed: {reason}"),
        }
    }
}

impl std::error::Error for ManifestError {}

#[derive(Serialize)]
struct Written<'a> {
    format: u64,
    #[serde(flatten)]
    entry: &'a LogEntry,
}

/// Only what has to be known before the rest can be read.
#[derive(Deserialize)]
struct Preamble {
    format: u64,
}

/// The text of `entry`. The same entry always gives the same bytes.
///
/// # Errors
/// If the entry breaks a rule that reading it back would enforce: never write what can't be read.
pub fn render(entry: &LogEntry) -> Result<Vec<u8>, ManifestError> {
    super::check::check(entry).map_err(ManifestError::Malformed)?;
    let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
    let text = serde_json::to_string_pretty(&Written { format: FORMAT, entry }).map_err(malformed)?;
    let body = text.strip_suffix("\n}").ok_or_else(|| ManifestError::Malformed("it does not end like an object".into()))?;
    let checksum = crc32c::crc32c(body.as_bytes());
    Ok(format!("{body}{SEAL}{checksum:08x}{END}").into_bytes())
}

/// The entry that `bytes` are the text of.
///
/// # Errors
/// What is wrong with them.
pub fn parse(bytes: &[u8]) -> Result<LogEntry, ManifestError> {
    if bytes.is_empty() {
        return Err(ManifestError::Empty);
    }
    let Some((body, digits)) = unseal(bytes) else {
        return Err(unsealed(bytes));
    };
    if format!("{:08x}", crc32c::crc32c(body)).as_bytes() != digits {
        return Err(ManifestError::Altered);
    }
    let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
    let preamble: Preamble = serde_json::from_slice(bytes).map_err(malformed)?;
    match preamble.format {
        FORMAT => {}
        0 => return Err(ManifestError::Malformed("format 0 does not exist".into())),
        newer => return Err(ManifestError::Newer(newer)),
    }
    let entry: LogEntry = serde_json::from_slice(bytes).map_err(malformed)?;
    super::check::check(&entry).map_err(ManifestError::Malformed)?;
    Ok(entry)
}

/// Whether `bytes` begin as a log entry does, whatever comes after.
pub fn begins_like_an_entry(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\n  \"format\":")
}

/// What the checksum covers, and its digits, if the text ends as it should.
fn unseal(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_suffix(END.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(SEAL.as_bytes())?, digits))
}

/// Why bytes without our ending have none.
fn unsealed(bytes: &[u8]) -> ManifestError {
    match serde_json::from_slice::<Preamble>(bytes) {
        // A later format may be sealed in another way.
        Ok(preamble) if preamble.format > FORMAT => ManifestError::Newer(preamble.format),
        Ok(_) => ManifestError::Altered,
        Err(_) if !begins_like_an_entry(bytes) && !b"{\n  \"format\":".starts_with(bytes) => ManifestError::Foreign,
        Err(error) if error.is_eof() => ManifestError::Truncated,
        Err(_) => ManifestError::Altered,
    }
}

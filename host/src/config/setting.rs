//! The types that settings in a job file may have: what is acceptable, and how messages describe it.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use crate::plan;

/// A type of setting.
pub(super) trait Setting: Sized {
    /// A value that is acceptable, as one would write it.
    const EXAMPLE: &'static str;

    /// What is acceptable: "a whole number from 1 to 9".
    fn expected() -> String;

    /// The value, if it is acceptable.
    fn read(value: &DeValue<'_>) -> Option<Self>;
}

/// A whole number from `MIN` to `MAX`.
pub(super) struct Whole<const MIN: u64, const MAX: u64>(pub(super) u64);

/// A whole number with no upper bound of its own.
pub(super) type AtLeast<const MIN: u64> = Whole<MIN, { u64::MAX }>;

impl<const MIN: u64, const MAX: u64> Setting for Whole<MIN, MAX> {
    const EXAMPLE: &'static str = "1";

    fn expected() -> String {
        match (MIN, MAX) {
            (0, u64::MAX) => "a whole number".into(),
            (_, u64::MAX) => format!("a whole number, at least {MIN}"),
            _ => format!("a whole number from {MIN} to {MAX}"),
        }
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let digits = value.as_integer()?;
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok()?;
        (MIN..=MAX).contains(&number).then_some(Whole(number))
    }
}

/// A number from `MIN` to `MAX`, which need not be whole.
pub(super) struct Decimal<const MIN: u32, const MAX: u32>(pub(super) f64);

impl<const MIN: u32, const MAX: u32> Setting for Decimal<MIN, MAX> {
    const EXAMPLE: &'static str = "1.0";

    fn expected() -> String {
        format!("a number from {MIN} to {MAX}")
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_float().map(|float| float.as_str()).or_else(|| value.as_integer().map(|integer| integer.as_str()))?;
        let number: f64 = text.parse().ok()?;
        (f64::from(MIN)..=f64::from(MAX)).contains(&number).then_some(Decimal(number))
    }
}

/// The stable name of a source, operator or sink. It becomes part of paths, and a dot in `inputs` ends it.
pub(super) struct Uid(pub(super) String);

impl Setting for Uid {
    const EXAMPLE: &'static str = "\"word-count\"";

    fn expected() -> String {
        "1 to 100 of the characters A-Z, a-z, 0-9, - and _".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        name(value, "-_").map(Uid)
    }
}

/// The name of a job. It becomes the name of a directory.
pub(super) struct JobName(pub(super) String);

impl Setting for JobName {
    const EXAMPLE: &'static str = "\"word-count\"";

    fn expected() -> String {
        "1 to 100 of the characters A-Z, a-z, 0-9, ., - and _, the first one no dot".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        name(value, ".-_").filter(|name| !name.starts_with('.')).map(JobName)
    }
}

fn name(value: &DeValue<'_>, marks: &str) -> Option<String> {
    let name = value.as_str()?;
    let fits = (1..=100).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c));
    fits.then(|| name.to_owned())
}

/// The longest time that can be added to any point in time.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// A length of time: long enough to be one on any clock, short enough to be added to any point in time.
pub(super) struct Time(pub(super) Duration);

impl Setting for Time {
    const EXAMPLE: &'static str = "\"200ms\"";

    fn expected() -> String {
        "a duration from 1ms to 365days".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let time = humantime::parse_duration(value.as_str()?).ok()?;
        (Duration::from_millis(1)..=LONGEST).contains(&time).then_some(Time(time))
    }
}

/// A length of time that may be none.
pub(super) struct Pause(pub(super) Duration);

impl Setting for Pause {
    const EXAMPLE: &'static str = "\"500ms\"";

    fn expected() -> String {
        "a duration up to 365days".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let time = humantime::parse_duration(value.as_str()?).ok()?;
        (time <= LONGEST).then_some(Pause(time))
    }
}

/// An amount of memory, in bytes.
pub(super) type Size = SizeUpTo<{ 1 << 40 }>;

/// A number of bytes of which there are at most `MAX`, a power of two.
pub(super) struct SizeUpTo<const MAX: u64>(pub(super) u64);

impl<const MAX: u64> Setting for SizeUpTo<MAX> {
    const EXAMPLE: &'static str = "\"256MiB\"";

    fn expected() -> String {
        let (count, unit) = if MAX >= 1 << 40 { (MAX >> 40, "TiB") } else { (MAX >> 30, "GiB") };
        format!("a size from 64KiB to {count}{unit}")
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let bytes = bytes(value)?;
        (64 << 10..=MAX).contains(&bytes).then_some(SizeUpTo(bytes))
    }
}

/// A size that may be none.
pub(super) struct Threshold(pub(super) u64);

impl Setting for Threshold {
    const EXAMPLE: &'static str = "\"20KiB\"";

    fn expected() -> String {
        "a size from 0B to 1MiB".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        bytes(value).filter(|bytes| *bytes <= 1 << 20).map(Threshold)
    }
}

/// A number of bytes, with or without a unit.
fn bytes(value: &DeValue<'_>) -> Option<u64> {
    let text = value.as_str()?;
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "KB" | "kB" => 1000,
        "MB" => 1000_u64.pow(2),
        "GB" => 1000_u64.pow(3),
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A place in the local file system, not yet absolute.
pub(super) struct LocalPath(pub(super) PathBuf);

impl Setting for LocalPath {
    const EXAMPLE: &'static str = "\"data/input.csv\"";

    fn expected() -> String {
        "a path or a file:// URL".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()?.parse().ok()? {
            plan::Location::Path(path) => Some(LocalPath(path)),
            plan::Location::Object(_) | plan::Location::Memory(_) => None,
        }
    }
}

/// What an operator runs; a path is not yet absolute.
pub(super) struct ComponentName(pub(super) plan::ComponentRef);

impl Setting for ComponentName {
    const EXAMPLE: &'static str = "\"delays.wasm\"";

    fn expected() -> String {
        "a path or a file:// URL, or name@version or a digest of a component that the host has".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok().map(ComponentName)
    }
}

/// A place in the local file system, not yet absolute, in a bucket or in memory.
pub(super) struct Anywhere(pub(super) plan::Location);

impl Setting for Anywhere {
    const EXAMPLE: &'static str = "\"s3://bucket/prefix\"";

    fn expected() -> String {
        "a path, a file://, s3://, gs:// or az:// URL, or memory:".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok().map(Anywhere)
    }
}

/// The same, but a place where things stay when the process ends.
pub(super) struct Lasting(pub(super) plan::Location);

impl Setting for Lasting {
    const EXAMPLE: &'static str = Anywhere::EXAMPLE;

    fn expected() -> String {
        "a path, or a file://, s3://, gs:// or az:// URL".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        plan::Location::lasting(value.as_str()?).ok().map(Lasting)
    }
}

/// Yes or no.
pub(super) struct Flag(pub(super) bool);

impl Setting for Flag {
    const EXAMPLE: &'static str = "true";

    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool().map(Flag)
    }
}

/// A name that someone else has given.
pub(super) struct Text(pub(super) String);

impl Setting for Text {
    const EXAMPLE: &'static str = "\"eu-central-1\"";

    fn expected() -> String {
        "a text that is not empty".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        (!text.is_empty() && !text.contains(char::is_control)).then(|| Text(text.into()))
    }
}

/// The URL of a service. Without credentials in it: it is shown in messages.
pub(super) struct Endpoint(pub(super) String);

impl Setting for Endpoint {
    const EXAMPLE: &'static str = "\"https://minio.example.org:9000\"";

    fn expected() -> String {
        "an http:// or https:// URL without user, query and fragment".into()
    }

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let url = url::Url::parse(value.as_str()?).ok()?;
        let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        (matches!(url.scheme(), "http" | "https") && url.has_host() && plain).then(|| Endpoint(url.as_str().trim_end_matches('/').into()))
    }
}

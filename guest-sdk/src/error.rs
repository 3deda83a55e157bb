//! [`Error`]: why a record, or an instance, can't be dealt with, in one line.

use std::fmt;

/// The SDK's result: what an operator's methods return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operator can't deal with a record. Any error becomes one with `?`; [`bail!`](crate::bail) makes one from text.
///
/// As big as a pointer, so that a method's `Result<()>` travels in a register.
pub struct Error(Box<Inner>);

struct Inner {
    message: String,
}

impl Error {
    /// An error that says `message`, preferably in one line.
    pub fn new(message: impl fmt::Display) -> Self {
        Error(Box::new(Inner { message: message.to_string() }))
    }

    /// Puts "`context`: " before the message.
    pub fn context(self, context: impl fmt::Display) -> Self {
        Error::new(format_args!("{context}: {self}"))
    }

    /// What it says.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?})", self.0.message)
    }
}

// `Error` itself is no `std::error::Error`, or this would overlap with the reflexive `From`.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Error(Box::new(Inner { message }))
    }
}

/// Ends the method with an [`Error`] that says what is given, as `format!` takes it.
///
/// ```
/// # use cofferdam_sdk::prelude::*;
/// fn fields(line: &str) -> Result<usize> {
///     if line.is_empty() {
///         bail!("the line is empty");
///     }
///     Ok(line.split(',').count())
/// }
/// assert_eq!(fields("").unwrap_err().message(), "the line is empty");
/// ```
#[macro_export]
macro_rules! bail {
    ($($message:tt)+) => {
        return ::core::result::Result::Err($crate::Error::new(::core::format_args!($($message)+)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("dep_delay")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_tells_its_causes_in_one_line() {
        let error = Error::from(Outer("x".parse::<u32>().unwrap_err()));
        assert_eq!(error.message(), "dep_delay: invalid digit found in string");
        assert_eq!(error.context("flight 7").to_string(), "flight 7: dep_delay: invalid digit found in string");
    }

    #[test]
    fn a_result_without_a_value_is_as_big_as_a_pointer() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}

//! [`Faults`]: what is wrong with a job file or host file, collected while all of it is read.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::secrets;
use crate::error::{Error, Kind, Problem, Result};

/// A place in the file's text, in bytes.
pub(super) type Span = Range<usize>;

/// Collects faults. Shared by all that read parts of the file, so adding one needs no exclusive access.
pub(super) struct Faults {
    file: PathBuf,
    text: String,
    /// The text without what must not be shown; its places are those of `text`.
    shown: String,
    found: RefCell<Vec<Fault>>,
}

struct Fault {
    span: Span,
    message: String,
    help: Option<String>,
}

impl Faults {
    pub(super) fn new(file: &Path, text: String) -> Self {
        Faults { file: file.into(), shown: secrets::hidden(&text), text, found: RefCell::new(Vec::new()) }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Notes that what stands at `span` is wrong, and what to do about it.
    pub(super) fn add(&self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        let help = Some(help.into()).filter(|help| !help.is_empty());
        self.found.borrow_mut().push(Fault { span, message: message.into(), help });
    }

    /// What stands at `span`, in one short line that is safe to print, whatever it holds.
    pub(super) fn quote(&self, span: Span) -> String {
        const LONGEST: usize = 40;
        let text: String = self.shown.get(span).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match text.char_indices().nth(LONGEST) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text,
        }
    }

    /// The line on which `span` begins, from 1 on.
    pub(super) fn line(&self, span: &Span) -> usize {
        self.text[..span.start].matches('\n').count() + 1
    }

    /// The faults, in the order of their places, or what was read if there are none.
    pub(super) fn into_result<T>(self, read: Option<T>) -> Result<T> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            let bug = || Error::new(Kind::Internal, format!("{}: nothing came of a file without faults", self.file.display()));
            return read.ok_or_else(bug);
        }
        found.sort_by_key(|fault| (fault.span.start, fault.span.end));
        let text: Arc<str> = self.shown.into();
        let problem = |Fault { span, message, help }| Problem { message, help, file: self.file.clone(), text: Arc::clone(&text), span };
        Err(Error::problems(found.into_iter().map(problem).collect()))
    }
}

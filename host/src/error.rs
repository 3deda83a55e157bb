//! The one error type of the host: what went wrong in one line, what to do about it, and which exit code says so.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The host's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong. Each kind has an exit code of its own, documented in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operator, source or sink failed while the job ran.
    Job,
    /// The job file, or a flag that changes it, is not acceptable.
    Config,
    /// A component is missing, broken, of another world, or does not fit the job.
    Component,
    /// A checkpoint is missing, broken, or does not fit the job.
    Checkpoint,
    /// A directory or store can't be read or written.
    Storage,
    /// A newer attempt of the same job has taken over.
    Fenced,
    /// A host can't be reached, or does not answer as one.
    Unreachable,
    /// There is no such job, component or path.
    NotFound,
    /// The job or component is not in a state in which this can be done.
    Conflict,
    /// A host wants to know who asks.
    Unauthorized,
    /// A request to a host is not as it must be.
    Request,
    /// The host broke one of its own rules: always a bug.
    Internal,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 12] = [
        Kind::Job,
        Kind::Config,
        Kind::Component,
        Kind::Checkpoint,
        Kind::Storage,
        Kind::Fenced,
        Kind::Unreachable,
        Kind::NotFound,
        Kind::Conflict,
        Kind::Unauthorized,
        Kind::Request,
        Kind::Internal,
    ];

    /// The process's exit code. 0 is success and 2 is clap's for wrong usage; 128 + n means ended by signal n.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Job => 1,
            Kind::Config => 3,
            Kind::Component => 4,
            Kind::Checkpoint => 5,
            Kind::Storage => 6,
            Kind::Fenced => 7,
            Kind::Unreachable => 8,
            Kind::NotFound => 9,
            Kind::Conflict => 10,
            Kind::Unauthorized => 11,
            Kind::Request => 2,
            Kind::Internal => 70,
        }
    }

    /// The kind with this name.
    pub fn from_code(code: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// A stable name, as `--output json` and the REST interface print it.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Job => "job-failed",
            Kind::Config => "config",
            Kind::Component => "component",
            Kind::Checkpoint => "checkpoint",
            Kind::Storage => "storage",
            Kind::Fenced => "fenced",
            Kind::Unreachable => "unreachable",
            Kind::NotFound => "not-found",
            Kind::Conflict => "conflict",
            Kind::Unauthorized => "unauthorized",
            Kind::Request => "bad-request",
            Kind::Internal => "internal",
        }
    }
}

/// A fault at a place in a text file, such as an unknown key in a job file.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The file.
    pub file: PathBuf,
    /// The whole text of the file.
    pub text: Arc<str>,
    /// Where in `text`, in bytes.
    pub span: Range<usize>,
}

impl Problem {
    /// The line in the file, from 1 on.
    pub fn line(&self) -> usize {
        let start = self.span.start.min(self.text.len());
        self.text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// By what a record is known when it comes again, in whatever attempt and to whichever subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordId {
    /// The operator that it came to.
    pub operator: String,
    /// Which one of its records it is.
    pub place: RecordPlace,
}

/// Which one of an operator's records it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPlace {
    /// The one that was read there.
    Split {
        /// The split of the source.
        split: String,
        /// Its number within the split, from 1 on.
        number: u64,
    },
    /// Where it is not known where it was read: one whose key and value have this hash.
    Content(u64),
}

/// An error of the host. Cheap to move; made with [`Error::new`] and [`Error::help`].
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    help: Option<String>,
    problems: Vec<Problem>,
    record: Option<RecordId>,
    for_people: bool,
    details: Map<String, Value>,
}

impl Error {
    /// An error of `kind` whose `message` says in one line what went wrong, naming the job, operator, record or setting.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            help: None,
            problems: Vec::new(),
            record: None,
            for_people: false,
            details: Map::new(),
        }))
    }

    /// All faults found in a job file, at once.
    pub fn problems(problems: Vec<Problem>) -> Self {
        let message = match problems.as_slice() {
            [only] => format!("{}:{}: {}", only.file.display(), only.line(), only.message),
            many => format!("{} problems in {}", many.len(), many.first().map(|p| p.file.display().to_string()).unwrap_or_default()),
        };
        let mut error = Error::new(Kind::Config, message);
        error.0.problems = problems;
        error
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds a remark to the message.
    pub fn note(mut self, remark: impl fmt::Display) -> Self {
        self.0.message = format!("{} ({remark})", self.0.message);
        self
    }

    /// Adds what more programs are told, under a name of its own.
    pub fn detail(mut self, name: &str, value: Value) -> Self {
        self.0.details.insert(name.into(), value);
        self
    }

    /// Notes that it is about a record which the message tells: where the same input is read again, it comes again.
    pub fn about(mut self, record: RecordId) -> Self {
        self.0.record = Some(record);
        self
    }

    /// Notes that it stays so until people mend something: to try again is of no use.
    pub fn for_people(mut self) -> Self {
        self.0.for_people = true;
        self
    }

    /// Whether it stays so until people mend something: because it was noted, or is of a kind of which that is true.
    pub fn is_for_people(&self) -> bool {
        match self.0.kind {
            Kind::Config | Kind::Component | Kind::Checkpoint | Kind::Fenced => true,
            _ => self.0.for_people,
        }
    }

    /// The record that it is about, if it is about one.
    pub fn record(&self) -> Option<&RecordId> {
        self.0.record.as_ref()
    }

    /// Puts "`context`: " before the message.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What went wrong, in one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// What more programs are told, by name.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// Faults in the job file, if it is about those.
    pub fn all_problems(&self) -> &[Problem] {
        &self.0.problems
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

//! `[[source]]`, `[[operator]]` and `[[sink]]`: what each is, apart from how they are connected.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::Spanned;

use super::faults::Span;
use super::section::{Section, one_of};
use super::setting::{AtLeast, ComponentName, LocalPath, Setting, Uid, Whole};
use super::{grants, limits, state};
use crate::plan::{
    ComponentRef, Distribution, NodeKind, OnError, OperatorSettings, Role, SinkSettings, SourceKind, SourceSettings, WordsSettings,
};

/// A node as far as it could be read.
pub(super) struct Draft {
    /// As messages name it: "source `flights`".
    pub(super) name: String,
    /// Its header.
    pub(super) span: Span,
    pub(super) role: Role,
    /// As it is written, acceptable or not, so that a fault in it is no fault of the inputs that name it.
    pub(super) uid: Option<Spanned<String>>,
    /// The uid that it had before.
    pub(super) renamed_from: Option<Spanned<String>>,
    /// None if a fault was noted.
    pub(super) kind: Option<NodeKind>,
    /// What feeds it, each with the input that it feeds, if that is named.
    pub(super) inputs: Vec<(Option<String>, Spanned<String>)>,
    /// The file or directory that it reads or writes.
    pub(super) location: Option<Spanned<PathBuf>>,
}

/// All nodes in the order of sources, operators, sinks, each as they stand in the file.
pub(super) fn read(root: &mut Section<'_>, base: &Path, state: &state::Defaults) -> Vec<Draft> {
    root.require("source", "a job reads from at least one `[[source]]`");
    root.require("sink", "a job writes to at least one `[[sink]]`");
    let mut drafts = Vec::new();
    for role in [Role::Source, Role::Operator, Role::Sink] {
        drafts.extend(root.sections(role.name()).into_iter().map(|section| draft(section, role, base, state)));
    }
    drafts
}

fn draft(section: Section<'_>, role: Role, base: &Path, state: &state::Defaults) -> Draft {
    let mut reader = Reader { section, base, state, location: None };
    let uid = reader.section.uid(role.name());
    let renamed_from = reader.section.optional::<Uid>("renamed-from").map(|uid| Spanned::new(uid.span(), uid.into_inner().0));
    let inputs = reader.inputs(role);
    let kind = match role {
        Role::Source => reader.source().map(NodeKind::Source),
        Role::Operator => reader.operator().map(NodeKind::Operator),
        Role::Sink => reader.sink().map(NodeKind::Sink),
    };
    let Reader { section, location, .. } = reader;
    let (name, span) = (section.name().to_owned(), section.span());
    section.finish();
    Draft { name, span, role, uid, renamed_from, kind, inputs, location }
}

const HOW_INPUTS: &str = "name what feeds it by uid, or by uid and output: `inputs = [\"parse\", \"join.late\"]`";

const HOW_NAMED_INPUTS: &str = "name what feeds it by uid, or by uid and output: `inputs = [\"parse\", \"join.late\"]`; or for each of its inputs: `inputs = { flights = [\"parse\"], airlines = [\"airlines\"] }`";

/// `max-errors` unless set: records that may fail within a minute.
const MAX_ERRORS: u64 = 1000;

/// A section on its way to a [`Draft`].
struct Reader<'a> {
    section: Section<'a>,
    base: &'a Path,
    state: &'a state::Defaults,
    location: Option<Spanned<PathBuf>>,
}

/// Values that a key may have, each with what reads the keys that go with it.
type Variants<'v, R, T> = &'v [(&'static str, fn(&mut R) -> Option<T>)];

impl Reader<'_> {
    fn inputs(&mut self, role: Role) -> Vec<(Option<String>, Spanned<String>)> {
        if role == Role::Source {
            self.section.refuse("inputs", "a source has no inputs", "remove the line, or make it an operator or sink");
            return Vec::new();
        }
        self.section.require("inputs", HOW_INPUTS);
        let inputs = self.section.texts_by_name("inputs", if role == Role::Operator { HOW_NAMED_INPUTS } else { HOW_INPUTS });
        if let Some((_, first)) = inputs.iter().find(|(to, _)| role == Role::Sink && to.is_some()) {
            self.section.fault(first.span(), "a sink has one input, which has no name", HOW_INPUTS);
        }
        inputs
    }

    fn source(&mut self) -> Option<SourceSettings> {
        let rate = self.optional::<AtLeast<1>>("rate").map(|rate| rate.0);
        let kind = self.variant("type", &[("file", Self::file_source), ("generator", Self::generator)])?;
        Some(SourceSettings { rate, kind })
    }

    fn file_source(&mut self) -> Option<SourceKind> {
        let skip_lines = self.optional::<AtLeast<0>>("skip-lines").map_or(0, |lines| lines.0);
        Some(SourceKind::File { path: self.location("path")?, skip_lines })
    }

    fn generator(&mut self) -> Option<SourceKind> {
        self.variant("kind", &[("words", Self::words)])
    }

    fn words(&mut self) -> Option<SourceKind> {
        let keys = self.optional::<Whole<1, { 1 << 52 }>>("keys").map_or(10_000, |keys| keys.0);
        let words_per_line = self.optional::<Whole<1, 1_000_000>>("words-per-line").map_or(10, |words| words.0);
        let lines = self.optional::<AtLeast<0>>("lines").map(|lines| lines.0);
        let seed = self.optional::<AtLeast<0>>("seed").map_or(1, |seed| seed.0);
        let distributions = [("zipf", Distribution::Zipf), ("uniform", Distribution::Uniform)];
        let distribution = self.section.choice("distribution", &distributions).unwrap_or(Distribution::Zipf);
        Some(SourceKind::Words(WordsSettings { keys, words_per_line, lines, seed, distribution }))
    }

    fn operator(&mut self) -> Option<OperatorSettings> {
        let component = self.section.required::<ComponentName>("component").map(|component| match component.into_inner().0 {
            ComponentRef::File(path) => ComponentRef::File(self.base.join(path)),
            kept => kept,
        });
        let config = self.section.json("config");
        let limits = limits::read(&mut self.section);
        let state = state::read_operator(&mut self.section, self.state);
        let grants = grants::read(&mut self.section);
        let policies = [("fail", OnError::Fail), ("skip", OnError::Skip), ("dead-letter", OnError::DeadLetter)];
        let on_error = self.section.choice("on-error", &policies).unwrap_or_default();
        let max_errors = self.optional::<AtLeast<1>>("max-errors").map_or(MAX_ERRORS, |errors| errors.0);
        let config = config.unwrap_or_else(|| Value::Object(Default::default()));
        Some(OperatorSettings { component: component?, config, limits, state, grants, on_error, max_errors })
    }

    fn sink(&mut self) -> Option<SinkSettings> {
        self.variant(
            "type",
            &[("file", Self::file_sink), ("stdout", |_| Some(SinkSettings::Stdout)), ("blackhole", |_| Some(SinkSettings::Blackhole))],
        )
    }

    fn file_sink(&mut self) -> Option<SinkSettings> {
        Some(SinkSettings::File { path: self.location("path")? })
    }

    fn optional<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.section.optional(key).map(Spanned::into_inner)
    }

    /// The file or directory that this node reads or writes, absolute.
    fn location(&mut self, key: &'static str) -> Option<PathBuf> {
        let given = self.section.required::<LocalPath>(key)?;
        let path = self.base.join(&given.get_ref().0);
        self.location = Some(Spanned::new(given.span(), path.clone()));
        Some(path)
    }

    /// What the reader makes of it that belongs to the value of `key`, which also decides what other keys there may be.
    fn variant<T>(&mut self, key: &'static str, variants: Variants<'_, Self, T>) -> Option<T> {
        self.section.require(key, one_of(key, variants));
        match self.section.choice(key, variants) {
            Some(read) => read(self),
            None => {
                self.section.allow_any_key();
                None
            }
        }
    }
}

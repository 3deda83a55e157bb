//! [`Section`]: one table of the job file, read key by key. Every key that is asked for is a key that may be there; what is left over
//! is unknown. So the code that reads a section is also its schema.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::faults::{Faults, Span};
use super::json;
use super::setting::{Setting, Uid};
use crate::plan::suggest::closest;

/// A table that is being read. Ends with [`Section::finish`], which finds unknown keys and tells which ones are missing.
pub(super) struct Section<'a> {
    faults: &'a Faults,
    table: &'a DeTable<'a>,
    /// As messages name it: "[job]", "source `flights`".
    name: String,
    /// Its header.
    span: Span,
    known: Vec<&'static str>,
    missing: Vec<(&'static str, String)>,
    any_key: bool,
}

impl<'a> Section<'a> {
    pub(super) fn new(faults: &'a Faults, table: &'a DeTable<'a>, name: impl Into<String>, span: Span) -> Self {
        Section { faults, table, name: name.into(), span, known: Vec::new(), missing: Vec::new(), any_key: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes a fault of this section at `span`.
    pub(super) fn fault(&self, span: Span, message: impl AsRef<str>, help: impl Into<String>) {
        let name = Some(&self.name).filter(|name| !name.is_empty()).map(|name| format!("{name}: ")).unwrap_or_default();
        self.faults.add(span, name + message.as_ref(), help);
    }

    /// Whether a key is there, acceptable or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The value of a key that may be absent. None as well when it is not acceptable, which then is noted.
    pub(super) fn optional<T: Setting>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        let value = self.value(key)?;
        let read = T::read(value.get_ref()).map(|read| Spanned::new(value.span(), read));
        if read.is_none() {
            let message = format!("`{key}` must be {}, found {}", T::expected(), self.describe(value));
            self.fault(value.span(), message, example(key, T::EXAMPLE));
        }
        read
    }

    /// The value of a key that must be there. None when it isn't or when it is not acceptable, which then is noted.
    pub(super) fn required<T: Setting>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        self.require(key, example(key, T::EXAMPLE));
        self.optional(key)
    }

    /// The uid as it is written, acceptable or not. From now on it names this section in messages.
    pub(super) fn uid(&mut self, kind: &str) -> Option<Spanned<String>> {
        let written = self.table.get("uid").and_then(|value| Some(Spanned::new(value.span(), value.get_ref().as_str()?.to_owned())));
        if let Some(uid) = &written {
            let quoted = self.faults.quote(uid.span());
            self.name = format!("{kind} `{}`", quoted.trim_matches(['"', '\'']));
        }
        self.required::<Uid>("uid");
        written
    }

    /// One of the named things, for a key that may be absent.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let value = self.value(key)?;
        let written = value.get_ref().as_str();
        if let Some((_, chosen)) = choices.iter().find(|(name, _)| Some(*name) == written) {
            return Some(*chosen);
        }
        let near = written.and_then(|written| closest(written, choices.iter().map(|(name, _)| *name)));
        let help = near.map(|near| format!("did you mean \"{near}\"? ")).unwrap_or_default() + &one_of(key, choices);
        self.fault(value.span(), format!("unknown {key} {}", self.describe(value)), help);
        None
    }

    /// Texts in a list that is not empty, each with its place. What is no text is noted and left out.
    pub(super) fn texts(&mut self, key: &'static str, help: &str) -> Vec<Spanned<String>> {
        self.value(key).map(|value| self.list(key, value, help)).unwrap_or_default()
    }

    /// As [`Section::texts`], or in a table of such lists, each with the list's name.
    pub(super) fn texts_by_name(&mut self, key: &'static str, help: &str) -> Vec<(Option<String>, Spanned<String>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            return self.list(key, value, help).into_iter().map(|text| (None, text)).collect();
        };
        if table.is_empty() {
            self.fault(value.span(), format!("`{key}` is empty"), help);
        }
        let named = |(name, value): (&Spanned<_>, _)| {
            let name: &DeString<'_> = name.get_ref();
            self.list(&format!("{key}.{name}"), value, help).into_iter().map(|text| (Some(name.to_string()), text)).collect::<Vec<_>>()
        };
        table.iter().flat_map(named).collect()
    }

    fn list(&self, key: &str, value: &Spanned<DeValue<'_>>, help: &str) -> Vec<Spanned<String>> {
        let items = match value.get_ref().as_array() {
            Some(items) if !items.is_empty() => items,
            Some(_) => {
                self.fault(value.span(), format!("`{key}` is empty"), help);
                return Vec::new();
            }
            None => {
                self.fault(value.span(), format!("`{key}` must be a list of strings, found {}", self.describe(value)), help);
                return Vec::new();
            }
        };
        let read = |item: &Spanned<DeValue<'_>>| {
            let text = item.get_ref().as_str().map(|text| Spanned::new(item.span(), text.to_owned()));
            if text.is_none() {
                self.fault(item.span(), format!("`{key}` must be a list of strings, found {} in it", self.describe(item)), help);
            }
            text
        };
        items.iter().filter_map(read).collect()
    }

    /// A table under a key that may be absent, as it stands, with its place.
    fn table(&mut self, key: &'static str) -> Option<(&'a DeTable<'a>, Span)> {
        let value = self.value(key)?;
        if let Some(table) = value.get_ref().as_table() {
            return Some((table, value.span()));
        }
        self.fault(
            value.span(),
            format!("`{key}` must be a table, found {}", self.describe(value)),
            format!("for example `{key} = {{ … }}`"),
        );
        None
    }

    /// A section under a key that may be absent.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Section<'a>> {
        let name = if self.name.is_empty() { format!("[{key}]") } else { format!("{}: {key}", self.name) };
        let (table, span) = self.table(key)?;
        Some(Section::new(self.faults, table, name, span))
    }

    /// A table under a key that may be absent, as JSON.
    pub(super) fn json(&mut self, key: &'static str) -> Option<serde_json::Value> {
        let (table, _) = self.table(key)?;
        Some(json::table(table, self.faults))
    }

    /// All sections under a key: `[[source]]`. A single one, `[source]`, is a fault and read all the same.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let help = format!("begin each {key} with a line `[[{key}]]`");
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.is_empty() {
            self.fault(value.span(), format!("`{key}` is empty"), &help);
        }
        let section = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table();
            if table.is_none() || value.get_ref().is_table() {
                self.fault(item.span(), format!("`{key}` must be a list of tables, found {}", self.describe(item)), &help);
            }
            Some(Section::new(self.faults, table?, format!("[[{key}]]"), item.span()))
        };
        items.into_iter().filter_map(section).collect()
    }

    /// A key that makes no sense here, though it does elsewhere.
    pub(super) fn refuse(&mut self, key: &'static str, message: &str, help: &str) {
        self.known.push(key);
        if let Some((key, _)) = self.table.get_key_value(key) {
            self.fault(key.span(), message, help);
        }
    }

    /// Says that `key` must be there, and how it would look. Told at the end, when it is known whether it is merely misspelt.
    pub(super) fn require(&mut self, key: &'static str, help: impl Into<String>) {
        if !self.table.contains_key(key) {
            self.missing.push((key, help.into()));
        }
    }

    /// Says that it isn't known which keys may be there, because the one that decides it is at fault.
    pub(super) fn allow_any_key(&mut self) {
        self.any_key = true;
    }

    /// The end: notes unknown keys and missing ones. A key that is misspelt is one fault, not two.
    pub(super) fn finish(mut self) {
        for (key, _) in self.table {
            if self.known.iter().any(|known| known == key.get_ref()) {
                continue;
            }
            let absent = self.known.iter().copied().filter(|known| !self.table.contains_key(*known));
            let near = closest(key.get_ref(), absent);
            let misspelt = self.missing.iter().position(|(missing, _)| near == Some(missing));
            if self.any_key && misspelt.is_none() {
                continue;
            }
            misspelt.map(|place| self.missing.remove(place));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            self.fault(key.span(), format!("unknown key `{}`", self.faults.quote(key.span())), help);
        }
        for (key, help) in &self.missing {
            self.fault(self.span(), format!("`{key}` is missing"), help);
        }
    }

    fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn describe(&self, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            DeValue::Table(_) => "a table".into(),
            DeValue::Array(_) => "a list".into(),
            _ => self.faults.quote(value.span()),
        }
    }
}

/// What `key` may be, for help.
pub(super) fn one_of<T>(key: &str, choices: &[(&'static str, T)]) -> String {
    let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    format!("{key} is one of: {}", names.join(", "))
}

fn example(key: &str, sample: &str) -> String {
    format!("for example `{key} = {sample}`")
}

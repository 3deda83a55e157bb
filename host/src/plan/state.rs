//! [`StateDescriptor`]: a state that an operator declares, and the names by which components and state files tell it.

use serde::{Deserialize, Serialize};

use super::Schema;

/// A kind of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// One value per key.
    Value,
    /// Elements in order of arrival, per key.
    List,
    /// One value per key, combined by the guest.
    Reducing,
    /// One value per key, made by the guest of what is added, which is of another type.
    Aggregating,
    /// Fields with a value each, per key, in the order of the fields' bytes.
    Map,
    /// Elements per subtask, spread evenly when the number of subtasks changes.
    OperatorList,
    /// Elements per subtask, of which each subtask sees all at a restore.
    OperatorUnionList,
    /// Fields with a value each, in the order of the fields' bytes, equal on all subtasks.
    Broadcast,
}

/// From when on a value's time to live counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TtlFrom {
    /// From when it was last written.
    Write,
    /// From when it was last written or read.
    Access,
}

/// How long the values of a state live: of a list each element, of a map the value of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ttl {
    /// Milliseconds, at least 1.
    pub ms: u64,
    /// From when on they count.
    pub from: TtlFrom,
    /// What was stamped no later than then, in milliseconds since the Unix epoch, has expired whatever `ms` says: it had when that was made
    /// longer. No component says so, but the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<i64>,
}

impl Ttl {
    /// A time to live of `ms` milliseconds.
    pub fn new(ms: u64, from: TtlFrom) -> Self {
        Ttl { ms, from, past: None }
    }

    /// How long values live from `now` on that have lived as long as `before` says: what had expired stays so.
    pub fn after(self, before: Ttl, now: i64) -> Self {
        let expired = (self.ms > before.ms).then(|| now.saturating_sub_unsigned(before.ms));
        Ttl { past: self.past.max(before.past).max(expired), ..self }
    }
}

/// A state that an operator declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StateDescriptor {
    /// Its stable name.
    pub name: String,
    /// Its kind.
    pub kind: StateKind,
    /// The schema of its values or elements.
    pub schema: Schema,
    /// The schema's version.
    pub version: u32,
    /// Of a map or broadcast state, the schema of its fields, which are encoded as keys are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_schema: Option<Schema>,
    /// How long its values live; none: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
}

/// What is told beside name, kind, schema and version: names and values.
pub type More = Vec<(String, String)>;

const TTL_MS: &str = "ttl-ms";
const TTL_FROM: &str = "ttl-from";
const FIELD_SCHEMA: &str = "field-schema";

impl StateKind {
    /// All kinds.
    pub const ALL: [StateKind; 8] = [
        StateKind::Value,
        StateKind::List,
        StateKind::Reducing,
        StateKind::Aggregating,
        StateKind::Map,
        StateKind::OperatorList,
        StateKind::OperatorUnionList,
        StateKind::Broadcast,
    ];

    /// Whether it is kept per key, and not per subtask.
    pub fn is_keyed(self) -> bool {
        !self.is_operator_list() && self != StateKind::Broadcast
    }

    /// Whether it is a list per subtask.
    pub fn is_operator_list(self) -> bool {
        matches!(self, StateKind::OperatorList | StateKind::OperatorUnionList)
    }

    /// Whether it has fields.
    pub fn has_fields(self) -> bool {
        matches!(self, StateKind::Map | StateKind::Broadcast)
    }

    /// How components and state files name it.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::Value => "value",
            StateKind::List => "list",
            StateKind::Reducing => "reducing",
            StateKind::Aggregating => "aggregating",
            StateKind::Map => "map",
            StateKind::OperatorList => "operator-list",
            StateKind::OperatorUnionList => "operator-union-list",
            StateKind::Broadcast => "broadcast",
        }
    }

    /// The kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl TtlFrom {
    fn name(self) -> &'static str {
        match self {
            TtlFrom::Write => "write",
            TtlFrom::Access => "access",
        }
    }
}

impl StateDescriptor {
    /// A state of a kind, whose values live for ever.
    pub fn new(name: impl Into<String>, kind: StateKind, schema: Schema, version: u32) -> Self {
        StateDescriptor { name: name.into(), kind, schema, version, field_schema: None, ttl: None }
    }

    /// What it says beside name, kind, schema and version.
    pub fn more(&self) -> More {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut more = Vec::new();
        more.extend(self.field_schema.as_ref().map(|schema| fact(FIELD_SCHEMA, &schema.0)));
        if let Some(Ttl { ms, from, .. }) = self.ttl {
            more.extend([fact(TTL_MS, &ms.to_string()), fact(TTL_FROM, from.name())]);
        }
        more
    }

    /// The state with what is told besides.
    ///
    /// # Errors
    /// What is unknown, doubled, missing or makes no sense, without the state's name. What is unknown is refused, because a state that
    /// relies on it would not be kept as it has to be.
    pub fn with_more(mut self, more: &More) -> Result<Self, String> {
        let mut from = None;
        for (index, (name, value)) in more.iter().enumerate() {
            if more[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(format!("`{}` is told twice", name.escape_debug()));
            }
            let unfit = || format!("`{name}` can't be `{}`", value.escape_debug());
            match name.as_str() {
                TTL_MS => {
                    let ms = value.parse().ok().filter(|&ms| ms > 0).ok_or_else(unfit)?;
                    self.ttl = Some(Ttl::new(ms, TtlFrom::Write));
                }
                TTL_FROM => {
                    let known = [TtlFrom::Write, TtlFrom::Access].into_iter().find(|from| from.name() == value);
                    from = Some(known.ok_or_else(unfit)?);
                }
                FIELD_SCHEMA if value.is_empty() => return Err(unfit()),
                FIELD_SCHEMA => self.field_schema = Some(Schema(value.clone())),
                _ => return Err(format!("`{}` is unknown; known are {FIELD_SCHEMA}, {TTL_MS} and {TTL_FROM}", name.escape_debug())),
            }
        }
        match (&mut self.ttl, from) {
            (Some(ttl), Some(from)) => ttl.from = from,
            (None, Some(_)) => return Err(format!("`{TTL_FROM}` means nothing without `{TTL_MS}`")),
            (_, None) => {}
        }
        if self.ttl.is_some() && !self.kind.is_keyed() {
            return Err(format!("`{TTL_MS}` is for state per key only"));
        }
        match (self.kind.has_fields(), self.field_schema.is_some()) {
            (true, false) => Err(format!("kind `{}` needs a `{FIELD_SCHEMA}`", self.kind.name())),
            (false, true) => Err(format!("`{FIELD_SCHEMA}` is for maps and broadcast state only")),
            _ => Ok(self),
        }
    }

    /// The state as it is kept from `now` on where there were others before, of the same names: what had expired stays so.
    pub fn after(&self, before: &[StateDescriptor], now: i64) -> Self {
        let before = before.iter().find(|before| before.name == self.name).and_then(|before| before.ttl);
        let ttl = self.ttl.map(|ttl| before.map_or(ttl, |before| ttl.after(before, now)));
        StateDescriptor { ttl, ..self.clone() }
    }

    /// Whether what is kept of `self` can be read as `other`: kind, schemas and version are the same, and both have a time to live or
    /// none. How long that is may change.
    pub fn is_kept_as(&self, other: &StateDescriptor) -> bool {
        self.differs_in_values_only(other) && (&self.schema, self.version) == (&other.schema, other.version)
    }

    /// Whether what is kept of `self` can be read as `other` once its values are rewritten.
    pub fn differs_in_values_only(&self, other: &StateDescriptor) -> bool {
        let StateDescriptor { name: _, kind, schema: _, version: _, field_schema, ttl } = self;
        (*kind, field_schema, ttl.is_some()) == (other.kind, &other.field_schema, other.ttl.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(kind: StateKind) -> StateDescriptor {
        StateDescriptor::new("s", kind, Schema::text(), 1)
    }

    fn told(kind: StateKind, more: &[(&str, &str)]) -> Result<StateDescriptor, String> {
        state(kind).with_more(&more.iter().map(|&(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn what_is_told_is_told_again() {
        let field_schema = Some(Schema("u64".into()));
        for kind in StateKind::ALL {
            for ttl in [None, Some(Ttl::new(1, TtlFrom::Write)), Some(Ttl::new(u64::MAX, TtlFrom::Access))] {
                let ttl = ttl.filter(|_| kind.is_keyed());
                let field_schema = field_schema.clone().filter(|_| kind.has_fields());
                let whole = StateDescriptor { field_schema, ttl, ..state(kind) };
                assert_eq!(state(kind).with_more(&whole.more()), Ok(whole));
                assert_eq!(StateKind::named(kind.name()), Some(kind));
            }
        }
        assert_eq!(told(StateKind::Value, &[("ttl-ms", "5")]).unwrap().ttl, Some(Ttl::new(5, TtlFrom::Write)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        type Told = &'static [(&'static str, &'static str)];
        let cases: [(StateKind, Told, &str); 12] = [
            (StateKind::OperatorList, &[("ttl-ms", "1")], "`ttl-ms` is for state per key only"),
            (StateKind::Value, &[("ttl-ms", "0")], "`ttl-ms` can't be `0`"),
            (StateKind::Value, &[("ttl-ms", "-1")], "`ttl-ms` can't be `-1`"),
            (StateKind::Value, &[("ttl-ms", "1"), ("ttl-from", "birth")], "`ttl-from` can't be `birth`"),
            (StateKind::Value, &[("ttl-from", "write")], "`ttl-from` means nothing without `ttl-ms`"),
            (StateKind::Value, &[("ttl-ms", "1"), ("ttl-ms", "1")], "`ttl-ms` is told twice"),
            (StateKind::Value, &[("field-schema", "text")], "`field-schema` is for maps and broadcast state only"),
            (StateKind::Map, &[], "kind `map` needs a `field-schema`"),
            (StateKind::Broadcast, &[], "kind `broadcast` needs a `field-schema`"),
            (StateKind::Broadcast, &[("field-schema", "text"), ("ttl-ms", "1")], "`ttl-ms` is for state per key only"),
            (StateKind::Map, &[("field-schema", "")], "`field-schema` can't be ``"),
            (StateKind::List, &[("queryable", "yes")], "`queryable` is unknown; known are field-schema, ttl-ms and ttl-from"),
        ];
        for (kind, more, expected) in cases {
            assert_eq!(told(kind, more).unwrap_err(), expected);
        }
    }

    #[test]
    fn only_how_long_values_live_may_change() {
        let mortal = |ms, from| StateDescriptor { ttl: Some(Ttl::new(ms, from)), ..state(StateKind::List) };
        assert!(mortal(1, TtlFrom::Write).is_kept_as(&mortal(2, TtlFrom::Access)));
        assert!(!mortal(1, TtlFrom::Write).is_kept_as(&state(StateKind::List)));
        assert!(!state(StateKind::List).is_kept_as(&mortal(1, TtlFrom::Write)));
        assert!(!state(StateKind::List).is_kept_as(&state(StateKind::Value)));
    }
}

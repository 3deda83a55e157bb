//! [`Declared`]: what an operator's struct says about a state, and how the host is told.

use super::StateDescriptor;

/// How long values live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Milliseconds, at least 1.
    pub ms: u64,
    /// Whether they count from when a value was last read, too.
    pub from_access: bool,
}

/// What a field and its `#[state]` say about a state.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// The state's name.
    pub name: &'static str,
    /// The version of its type.
    pub version: u32,
    /// How long its values live; none: for ever.
    pub ttl: Option<Ttl>,
}

const TTL_MS: &str = "ttl-ms";
const TTL_FROM: &str = "ttl-from";
const FIELD_SCHEMA: &str = "field-schema";
const ACCESS: &str = "access";

impl Declared {
    /// A descriptor's entry.
    pub(super) fn describe(self, kind: &str, schema: String) -> StateDescriptor {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let ttl = self.ttl.into_iter().flat_map(|ttl| {
            let from = if ttl.from_access { ACCESS } else { "write" };
            [fact(TTL_MS, &ttl.ms.to_string()), fact(TTL_FROM, from)]
        });
        StateDescriptor { name: self.name.into(), kind: kind.into(), schema, version: self.version, more: ttl.collect() }
    }

    /// A descriptor's entry for a state that has fields.
    pub(super) fn describe_fields(self, kind: &str, field_schema: String, schema: String) -> StateDescriptor {
        let mut state = self.describe(kind, schema);
        state.more.push((FIELD_SCHEMA.into(), field_schema));
        state
    }

    /// Whether reading a value changes how long it lives: then nothing may be read that the operator did not ask for.
    pub(super) fn reads_count(self) -> bool {
        self.ttl.is_some_and(|ttl| ttl.from_access)
    }
}

/// What a described state says besides, under a name.
#[cfg(not(target_family = "wasm"))]
fn told<'s>(state: &'s StateDescriptor, name: &str) -> Option<&'s str> {
    state.more.iter().find(|fact| fact.0 == name).map(|fact| fact.1.as_str())
}

/// The schema of a described map's fields.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn field_schema(state: &StateDescriptor) -> Option<String> {
    told(state, FIELD_SCHEMA).map(str::to_owned)
}

#[cfg(not(target_family = "wasm"))]
impl Ttl {
    /// How long the values of a described state live.
    pub(crate) fn of(state: &StateDescriptor) -> Option<Ttl> {
        let ms = told(state, TTL_MS)?.parse().ok()?;
        Some(Ttl { ms, from_access: told(state, TTL_FROM) == Some(ACCESS) })
    }
}

//! In what a state that was saved and the one that is declared now differ, told for people: down to the fields of their schemas.

use super::{Schema, StateDescriptor};

/// How deep into schemas differences are looked for: they come from components and from files, so there must be an end.
const DEEPEST: usize = 100;
/// How many differences are told.
const TOLD: usize = 5;
/// How many characters of a type are told.
const LONGEST_TYPE: usize = 200;

impl StateDescriptor {
    /// In what it differs from `new`, which is not [kept as](StateDescriptor::is_kept_as) it: continues "state x ". `there` and `now` say
    /// where the two are.
    pub fn difference(&self, new: &StateDescriptor, there: &str, now: &str) -> String {
        let told = |tell: fn(&StateDescriptor) -> String| (tell(self), tell(new));
        let (what, (old_is, new_is)) = if self.kind != new.kind {
            ("is of kind", told(|state| state.kind.name().into()))
        } else if self.field_schema != new.field_schema {
            ("has fields of schema", told(|state| state.field_schema.as_ref().map_or("none".into(), ToString::to_string)))
        } else if self.ttl.is_some() != new.ttl.is_some() {
            ("has", told(|state| if state.ttl.is_some() { "a time to live" } else { "no time to live" }.into()))
        } else {
            ("has schema", told(|state| format!("{} (version {})", state.schema, state.version)))
        };
        let mut text = format!("{what} {old_is} {there} and {new_is} {now}");
        let fields = changes(&self.schema, &new.schema);
        if what == "has schema" && !fields.is_empty() {
            let more = if fields.len() > TOLD { ", and more" } else { "" };
            text += &format!(": {}{more}", fields[..fields.len().min(TOLD)].join(", "));
        }
        text
    }
}

/// In which fields two schemas differ; nothing if that is not in fields.
fn changes(old: &Schema, new: &Schema) -> Vec<String> {
    in_fields(&old.0, &new.0, &mut Vec::new()).unwrap_or_default()
}

/// The differences in fields, if all that differs is in fields. `path` leads to what is compared.
fn in_fields<'t>(old: &'t str, new: &'t str, path: &mut Vec<&'t str>) -> Option<Vec<String>> {
    let (old, new) = (Type::of(old)?, Type::of(new)?);
    if old.head != new.head || old.bracket != new.bracket || path.len() == DEEPEST {
        return None;
    }
    if old.has_names() {
        return Some(in_names(&old, &new, path));
    }
    let mut differences = Vec::new();
    // Parts without names count as one level too, so that the end is reached.
    path.push("");
    let same_length = old.parts.len() == new.parts.len();
    let found = old.parts.iter().zip(&new.parts).filter(|(old, new)| old != new).try_for_each(|(&old, &new)| {
        differences.extend(in_fields(old, new, path)?);
        Some(())
    });
    path.pop();
    found.filter(|()| same_length).map(|()| differences)
}

fn in_names<'t>(old: &Type<'t>, new: &Type<'t>, path: &mut Vec<&'t str>) -> Vec<String> {
    let word = if old.head == "enum" { "variant" } else { "field" };
    let mut differences = Vec::new();
    for &part in &old.parts {
        let (name, ty) = named(part);
        path.push(name);
        match new.parts.iter().map(|&part| named(part)).find(|(other, _)| *other == name) {
            None => differences.push(format!("{word} {} is missing", shown(path))),
            Some((_, now)) if now == ty => {}
            Some((_, now)) => match in_fields(ty, now, path) {
                Some(within) => differences.extend(within),
                None => differences.push(format!("{word} {}: {} → {}", shown(path), short(ty), short(now))),
            },
        }
        path.pop();
    }
    for &part in &new.parts {
        let (name, ty) = named(part);
        if old.parts.iter().all(|part| named(part).0 != name) {
            path.push(name);
            differences.push(format!("{word} {} was added: {}", shown(path), short(ty)));
            path.pop();
        }
    }
    if differences.is_empty() {
        differences.push(format!("the {word}s of {} are in another order", shown(path)));
    }
    differences
}

/// A name and what stands behind it: `a:u8`, `A(u8)`, `A{a:u8}`, `A`.
fn named(part: &str) -> (&str, &str) {
    let (name, ty) = part.split_at(part.find([':', '(', '{']).unwrap_or(part.len()));
    (name, ty.strip_prefix(':').unwrap_or(ty))
}

/// A type, cut off if it is very long.
fn short(ty: &str) -> String {
    match ty.char_indices().nth(LONGEST_TYPE) {
        None if ty.is_empty() => "nothing".into(),
        None => ty.into(),
        Some((end, _)) => format!("{}…", &ty[..end]),
    }
}

/// A path as people write it.
fn shown(path: &[&str]) -> String {
    let names: Vec<&str> = path.iter().copied().filter(|name| !name.is_empty()).collect();
    if names.is_empty() { "the whole".into() } else { format!("`{}`", names.join(".")) }
}

/// A type with parts: what stands before its bracket, the bracket, and what stands in it between commas.
struct Type<'t> {
    head: &'t str,
    bracket: char,
    parts: Vec<&'t str>,
}

impl<'t> Type<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let open = text.find(['(', '{', '<'])?;
        let bracket = text[open..].chars().next()?;
        let within = text[open + 1..].strip_suffix([')', '}', '>'])?;
        let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
        for (at, sign) in within.char_indices() {
            match sign {
                '(' | '{' | '<' => depth += 1,
                ')' | '}' | '>' => depth = depth.checked_sub(1)?,
                ',' if depth == 0 => {
                    parts.push(&within[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        parts.extend((start < within.len()).then(|| &within[start..]));
        let head = &text[..open];
        Some(Type { head: head.strip_prefix("postcard:").unwrap_or(head), bracket, parts })
    }

    /// Whether its parts begin with names.
    fn has_names(&self) -> bool {
        self.bracket == '{'
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{StateKind, Ttl, TtlFrom};

    fn told(old: &str, new: &str) -> String {
        changes(&Schema(old.into()), &Schema(new.into())).join(", ")
    }

    #[test]
    fn the_fields_that_differ_are_named() {
        let cases = [
            ("postcard:{a:u8,delay:option<i64>}", "postcard:{a:u8,delay:i64}", "field `delay`: option<i64> → i64"),
            ("postcard:{a:u8,b:u8}", "postcard:{b:u8}", "field `a` is missing"),
            ("postcard:{a:u8}", "postcard:{x:map<text,(u8,u8)>,a:u8}", "field `x` was added: map<text,(u8,u8)>"),
            ("postcard:{a:u8,b:u8}", "postcard:{b:u8,a:u8}", "the fields of the whole are in another order"),
            ("postcard:list<{a:{b:u8,c:u8}}>", "postcard:list<{a:{c:u8,b:u8}}>", "the fields of `a` are in another order"),
            ("postcard:map<text,(u8,{a:u8})>", "postcard:map<text,(u8,{a:u16})>", "field `a`: u8 → u16"),
            ("postcard:{a:map<u8,{b:u8}>,c:u8}", "postcard:{a:map<u16,{b:i8}>,c:u8}", "field `a`: map<u8,{b:u8}> → map<u16,{b:i8}>"),
            ("postcard:{a:(u8,u8)}", "postcard:{a:(u8)}", "field `a`: (u8,u8) → (u8)"),
            ("postcard:{a:array<u8,2>}", "postcard:{a:array<u8,3>}", "field `a`: array<u8,2> → array<u8,3>"),
            (
                "postcard:{e:enum{A,B(u8),C{x:u8}}}",
                "postcard:{e:enum{A,B,C{x:i8}}}",
                "variant `e.B`: (u8) → nothing, field `e.C.x`: u8 → i8",
            ),
            ("postcard:enum{A}", "postcard:enum{B}", "variant `A` is missing, variant `B` was added: nothing"),
            ("postcard:{a:u8,b:u8}", "postcard:{b:u16}", "field `a` is missing, field `b`: u8 → u16"),
            ("postcard:u8", "postcard:u16", ""),
            ("text", "postcard:{a:u8}", ""),
            ("postcard:{a:u8", "postcard:{a:u16}", ""),
            ("postcard:{a:u8>}", "postcard:{a:u16}", ""),
        ];
        for (old, new, expected) in cases {
            assert_eq!(told(old, new), expected, "{old} to {new}");
        }
        let deep = |ty: &str| format!("postcard:{}{ty}{}", "{a:".repeat(100_000), "}".repeat(100_000));
        assert!(told(&deep("u8"), &deep("u16")).starts_with("field `a.a."));
    }

    #[test]
    fn what_else_differs_comes_before_the_schema() {
        let state = |kind, schema: &str| StateDescriptor::new("s", kind, Schema(schema.into()), 1);
        let value = state(StateKind::Value, "postcard:{a:u8}");
        let tell = |new: StateDescriptor| value.difference(&new, "there", "now");
        assert_eq!(tell(state(StateKind::List, "text")), "is of kind value there and list now");
        let mortal = StateDescriptor { ttl: Some(Ttl::new(1, TtlFrom::Write)), ..value.clone() };
        assert_eq!(tell(mortal), "has no time to live there and a time to live now");
        let newer = StateDescriptor { version: 2, ..state(StateKind::Value, "postcard:{a:u8,b:u8}") };
        let expected = "has schema postcard:{a:u8} (version 1) there and postcard:{a:u8,b:u8} (version 2) now: field `b` was added: u8";
        assert_eq!(tell(newer), expected);
        let wide = format!("postcard:{{a:u16{}}}", (0..9).map(|number| format!(",f{number}:u8")).collect::<String>());
        assert!(tell(state(StateKind::Value, &wide)).ends_with("field `f3` was added: u8, and more"));
    }
}

//! Types of a component's functions as WIT text, so that a misfit can be shown to people: "wants this, the host offers that".

use std::fmt::Write;

use wasmtime::component::types::{ComponentFunc, Type};

/// The named types of `wit/operator.wit`, each after those that it uses.
pub(super) const NAMED: &[(&str, &str)] = &[
    ("column", "record { ends: list<u32>, bytes: list<u8> }"),
    ("cells", "record { present: list<u8>, values: column }"),
    ("batch", "record { keys: column, key-of: list<u32>, values: column, timestamps: list<s64> }"),
    ("more", "list<tuple<string, string>>"),
    ("port", "record { name: string, partitioning: string, key-schema: string, value-schema: string, more: more }"),
    ("state", "record { name: string, kind: string, schema: string, version: u32, more: more }"),
    (
        "operator-descriptor",
        "record { name: string, version: string, inputs: list<port>, outputs: list<port>, states: list<state>, more: more }",
    ),
    ("emit-keys", "variant { none, known(list<u32>), fresh(column) }"),
];

/// A function as WIT writes it.
pub(super) fn of_function(function: &ComponentFunc) -> String {
    let params = function.params().map(|(name, ty)| format!("{name}: {}", of_type(&ty)));
    let mut text = format!("func({})", params.collect::<Vec<_>>().join(", "));
    let results: Vec<_> = function.results().map(|ty| of_type(&ty)).collect();
    if !results.is_empty() {
        // Writing into a string can't fail.
        let _ = write!(text, " -> {}", results.join(", "));
    }
    if function.async_() { format!("asynchronous {text}") } else { text }
}

/// A type as WIT writes it, by its name if it is one of ours.
fn of_type(ty: &Type) -> String {
    let text = spell_out(ty);
    match NAMED.iter().find(|(_, spelt)| *spelt == text) {
        Some((name, _)) => (*name).into(),
        None => text,
    }
}

fn spell_out(ty: &Type) -> String {
    let within = |ty: Option<Type>| ty.map_or("_".into(), |ty| of_type(&ty));
    let case = |(name, ty): (&str, Option<Type>)| ty.map_or(name.into(), |ty| format!("{name}({})", of_type(&ty)));
    let joined = |parts: &mut dyn Iterator<Item = String>| parts.collect::<Vec<_>>().join(", ");
    match ty {
        Type::List(list) => format!("list<{}>", of_type(&list.ty())),
        Type::FixedLengthList(list) => format!("list<{}, {}>", of_type(&list.ty()), list.len()),
        Type::Map(map) => format!("map<{}, {}>", of_type(&map.key()), of_type(&map.value())),
        Type::Option(option) => format!("option<{}>", of_type(&option.ty())),
        Type::Tuple(tuple) => format!("tuple<{}>", joined(&mut tuple.types().map(|ty| of_type(&ty)))),
        Type::Record(record) => {
            format!("record {{ {} }}", joined(&mut record.fields().map(|field| format!("{}: {}", field.name, of_type(&field.ty)))))
        }
        Type::Variant(variant) => format!("variant {{ {} }}", joined(&mut variant.cases().map(|c| case((c.name, c.ty))))),
        Type::Enum(names) => format!("enum {{ {} }}", joined(&mut names.names().map(String::from))),
        Type::Flags(flags) => format!("flags {{ {} }}", joined(&mut flags.names().map(String::from))),
        Type::Result(result) => match (result.ok(), result.err()) {
            (None, None) => "result".into(),
            (ok, None) => format!("result<{}>", within(ok)),
            (ok, err) => format!("result<{}, {}>", within(ok), within(err)),
        },
        Type::Own(_) => "own<resource>".into(),
        Type::Borrow(_) => "borrow<resource>".into(),
        Type::Future(_) => "future".into(),
        Type::Stream(_) => "stream".into(),
        plain => format!("{plain:?}").to_lowercase().replace("float", "f"),
    }
}

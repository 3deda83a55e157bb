//! What the host offers to components and asks of them, and the check of a component against it, which says in our words what does
//! not fit: a component is refused when a job is deployed, and people have to see why.

use wasmtime::component::types::{Component, ComponentInstance, ComponentItem};

use super::signature;
use crate::error::{Error, Kind};

/// An interface: its name and its functions with their types, as `wit/operator.wit` has them.
pub(super) struct Interface {
    pub(super) name: &'static str,
    pub(super) functions: &'static [(&'static str, &'static str)],
}

/// What every operator exports.
pub(super) const OPERATOR: Interface = Interface {
    name: "cofferdam:operator/operator@0.1.0",
    functions: &[
        ("describe", "func() -> operator-descriptor"),
        ("open", "func() -> result<_, string>"),
        ("process", "func(port: u32, records: batch) -> result<_, string>"),
    ],
};

/// What an operator may export.
pub(super) const FINISH_HOOK: Interface =
    Interface { name: "cofferdam:operator/finish-hook@0.1.0", functions: &[("finish", "func(keys: column) -> result<_, string>")] };

/// What an operator may export.
pub(super) const SNAPSHOT_HOOK: Interface =
    Interface { name: "cofferdam:operator/snapshot-hook@0.1.0", functions: &[("snapshot", "func(checkpoint: u64) -> result<_, string>")] };

/// What an operator may export.
pub(super) const CHECKPOINT_HOOKS: Interface =
    Interface { name: "cofferdam:operator/checkpoint-hooks@0.1.0", functions: &[("checkpoint-complete", "func(checkpoint: u64)")] };

/// What an operator may export.
pub(super) const CHECKPOINT_ABORTED_HOOK: Interface =
    Interface { name: "cofferdam:operator/checkpoint-aborted-hook@0.1.0", functions: &[("checkpoint-aborted", "func(checkpoint: u64)")] };

/// What an operator may export.
pub(super) const CLOSE_HOOK: Interface = Interface { name: "cofferdam:operator/close-hook@0.1.0", functions: &[("close", "func()")] };

/// What an operator may export.
pub(super) const MIGRATION: Interface = Interface {
    name: "cofferdam:operator/migration@0.1.0",
    functions: &[("migrate", "func(state: u32, from-version: u32, from-schema: string, values: column) -> result<column, string>")],
};

/// All that an operator may export besides what it must.
pub(super) const HOOKS: [Interface; 6] = [FINISH_HOOK, SNAPSHOT_HOOK, CHECKPOINT_HOOKS, CHECKPOINT_ABORTED_HOOK, CLOSE_HOOK, MIGRATION];

/// What operators may import, besides WASI.
pub(super) const OFFERED: &[Interface] = &[
    Interface { name: "cofferdam:operator/records@0.1.0", functions: &[] },
    Interface { name: "cofferdam:operator/descriptor@0.1.0", functions: &[] },
    Interface {
        name: "cofferdam:operator/keyed-state@0.1.0",
        functions: &[
            ("get", "func(state: u32, keys: list<u32>) -> cells"),
            ("put", "func(state: u32, keys: list<u32>, values: column)"),
            ("clear", "func(state: u32, keys: list<u32>)"),
            ("list-append", "func(state: u32, keys: list<u32>, values: column)"),
            ("list-replace", "func(state: u32, key: u32, values: column)"),
            ("list-read", "func(state: u32, key: u32, start: u32, max-bytes: u32) -> column"),
            ("map-get", "func(state: u32, keys: list<u32>, fields: column) -> cells"),
            ("map-get-one", "func(state: u32, key: u32, field: list<u8>) -> option<list<u8>>"),
            ("map-put", "func(state: u32, keys: list<u32>, fields: column, values: column)"),
            ("map-remove", "func(state: u32, keys: list<u32>, fields: column)"),
            ("map-scan", "func(state: u32, key: u32, start: list<u8>, max-bytes: u32) -> tuple<column, column>"),
        ],
    },
    Interface {
        name: "cofferdam:operator/operator-state@0.1.0",
        functions: &[
            ("list-get", "func(state: u32) -> column"),
            ("list-update", "func(state: u32, values: column)"),
            ("broadcast-get", "func(state: u32, fields: column) -> cells"),
            ("broadcast-scan", "func(state: u32, start: list<u8>, max-bytes: u32) -> tuple<column, column>"),
            ("broadcast-put", "func(state: u32, fields: column, values: column)"),
            ("broadcast-remove", "func(state: u32, fields: column)"),
        ],
    },
    Interface {
        name: "cofferdam:operator/output@0.1.0",
        functions: &[
            ("emit", "func(port: u32, keys: emit-keys, values: column, timestamps: list<s64>)"),
            ("reject", "func(record-index: u32, message: string)"),
        ],
    },
    Interface {
        name: "cofferdam:operator/runtime@0.1.0",
        functions: &[
            ("context", "func() -> more"),
            ("config", "func() -> string"),
            ("processing-time", "func() -> s64"),
            ("log", "func(level: u8, message: string)"),
            ("count", "func(metric: string, by: u64)"),
            ("gauge", "func(metric: string, value: f64)"),
            ("panicked", "func(record-index: option<u32>, message: string)"),
        ],
    },
];

/// The version of WASI that is offered, and what of it.
const WASI_VERSION: &str = "0.2";
const WASI: &[&str] = &["wasi:cli", "wasi:clocks", "wasi:filesystem", "wasi:io", "wasi:random", "wasi:sockets"];

/// Compares a component's type with what the host offers and asks for.
///
/// # Errors
/// Kind `Component`, with everything that does not fit in one line. The caller adds which component it is.
pub(super) fn check(component: &Component, engine: &wasmtime::Engine) -> Result<(), Error> {
    check_exports(component, engine)?;
    check_imports(component, engine)
}

fn check_exports(component: &Component, engine: &wasmtime::Engine) -> Result<(), Error> {
    let exports: Vec<_> = component.exports(engine).filter(|(name, _)| name.contains('/')).collect();
    let Some((name, operator)) = exports.iter().find(|(name, _)| is_compatible(name, OPERATOR.name)) else {
        return Err(not_an_operator(exports.iter().map(|(name, _)| *name)));
    };
    let mut misfits = misfits(name, &operator.ty, &OPERATOR, engine);
    for ours in &HOOKS {
        if let Some((name, hook)) = exports.iter().find(|(name, _)| is_compatible(name, ours.name)) {
            misfits.extend(self::misfits(name, &hook.ty, ours, engine));
        }
    }
    refuse("it exports functions of other types than the host calls", &misfits)
}

fn check_imports(component: &Component, engine: &wasmtime::Engine) -> Result<(), Error> {
    let (mut unknown, mut misfits) = (Vec::new(), Vec::new());
    for (name, import) in component.imports(engine) {
        match OFFERED.iter().find(|offered| is_compatible(name, offered.name)) {
            Some(offered) => misfits.extend(self::misfits(name, &import.ty, offered, engine)),
            None if is_wasi(name) => (),
            None => unknown.push(format!("`{name}` ({})", offered_instead(name))),
        }
    }
    if unknown.is_empty() {
        return refuse("it imports functions of other types than the host offers", &misfits);
    }
    Err(Error::new(Kind::Component, format!("it imports what the host does not offer: {}", unknown.join(", "))).help(format!(
        "build it for the world `stream-operator` of cofferdam:operator@0.1 and WASI {WASI_VERSION}, as components that use cofferdam-sdk 0.1 are"
    )))
}

/// What is offered in the place of an interface that is not: another version, or others of its package.
fn offered_instead(name: &str) -> String {
    fn package(name: &str) -> &str {
        name.split('/').next().unwrap_or(name)
    }
    if let Some(offered) = OFFERED.iter().find(|offered| bare(offered.name) == bare(name)) {
        return format!("the host offers `{}`", offered.name);
    }
    if let Some((offered, version)) = OPERATOR.name.split_once('@').filter(|(ours, _)| package(ours) == package(name)) {
        return format!("the host offers {}@{version}, which has no such interface", package(offered));
    }
    match WASI.iter().find(|offered| **offered == package(name)) {
        Some(offered) => format!("the host offers {offered}@{WASI_VERSION}"),
        None => "the host has nothing of that name".into(),
    }
}

fn not_an_operator<'a>(exports: impl Iterator<Item = &'a str> + Clone) -> Error {
    // Of another version of this package only that counts.
    let operator = exports.clone().find(|name| bare(name) == bare(OPERATOR.name));
    let exports: Vec<_> =
        exports.filter(|name| operator.is_none_or(|operator| operator == *name)).map(|name| format!("`{name}`")).collect();
    let instead = if exports.is_empty() { "no interface".into() } else { exports.join(", ") };
    Error::new(Kind::Component, format!("it is not an operator: it exports {instead} and not `{}`", OPERATOR.name))
        .help("build it for the world `stream-operator` of cofferdam:operator@0.1, as components that use cofferdam-sdk 0.1 are")
}

fn refuse(what: &str, misfits: &[String]) -> Result<(), Error> {
    if misfits.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Component, format!("{what}: {}", misfits.join("; ")))
        .help("build it against the same version of cofferdam:operator (and cofferdam-sdk) as this host's, 0.1.0"))
}

/// The functions of an interface that are missing on one side or of another type. A component need not import every function that is
/// offered, but must export every one that is called.
fn misfits(name: &str, item: &ComponentItem, ours: &Interface, engine: &wasmtime::Engine) -> Vec<String> {
    let ComponentItem::ComponentInstance(instance) = item else {
        return vec![format!("`{name}` is not an interface")];
    };
    let mut misfits = Vec::new();
    let is_export = ours.name == OPERATOR.name || HOOKS.iter().any(|hook| hook.name == ours.name);
    for (function, theirs) in functions(instance, engine) {
        match ours.functions.iter().find(|(known, _)| *known == function) {
            Some((_, known)) if *known == theirs => (),
            Some((_, known)) => misfits.push(format!("`{name}` {function}: {theirs} instead of {known}")),
            None if is_export => (),
            None => misfits.push(format!("`{name}` {function}: there is no such function in `{}`, which the host offers", ours.name)),
        }
    }
    let exported = |function: &str| functions(instance, engine).any(|(theirs, _)| theirs == function);
    for (function, _) in ours.functions.iter().filter(|(function, _)| is_export && !exported(function)) {
        misfits.push(format!("`{name}` {function}: missing"));
    }
    misfits
}

fn functions<'a>(instance: &'a ComponentInstance, engine: &'a wasmtime::Engine) -> impl Iterator<Item = (&'a str, String)> {
    instance.exports(engine).filter_map(|(name, item)| match item.ty {
        ComponentItem::ComponentFunc(function) => Some((name, signature::of_function(&function))),
        _ => None,
    })
}

/// Whether an interface with a version is the same as another up to additions: 0.1.3 and 0.1.0, or 1.4.0 and 1.2.0.
pub(super) fn is_compatible(name: &str, other: &str) -> bool {
    fn track(name: &str) -> Option<(&str, &str)> {
        let (interface, version) = name.split_once('@')?;
        if version.contains(['-', '+']) {
            return None;
        }
        let mut dots = version.match_indices('.').map(|(at, _)| at);
        let (major, minor) = (dots.next()?, dots.next()?);
        Some((interface, &version[..if version.starts_with("0.") { minor } else { major }]))
    }
    name == other || track(name).is_some_and(|track_of_name| track(other) == Some(track_of_name))
}

/// The name of an interface without its version.
fn bare(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn is_wasi(name: &str) -> bool {
    let Some((package, _)) = name.split_once('/') else { return false };
    let version = name.split_once('@').map_or("", |(_, version)| version);
    WASI.contains(&package) && version.strip_prefix(WASI_VERSION).is_some_and(|rest| rest.starts_with('.'))
}

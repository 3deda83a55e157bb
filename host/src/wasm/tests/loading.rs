//! What can be loaded, and in which words the rest is refused.

use super::guest::{Guest, engine, limits, load_bytes, load_text, processing, refusal};
use crate::error::Kind;
use crate::wasm::{Component, Interrupt, signature, world};

#[test]
fn a_component_is_loaded_with_its_digest_and_its_interfaces() {
    let bytes = wat::parse_str(Guest::default().text()).unwrap();
    let component = load_bytes(&bytes, limits()).unwrap();
    assert_eq!(component.digest(), blake3::hash(&bytes).to_hex().as_str());
    let imports = ["keyed-state", "operator-state", "output", "runtime"].map(|name| format!("cofferdam:operator/{name}@0.1.0"));
    assert_eq!(component.imports(), imports);
    assert!(component.exports().contains(&"cofferdam:operator/operator@0.1.0".into()));
    assert!(component.descriptor().finish_hook);
}

#[test]
fn a_missing_file_is_named() {
    let path = std::env::temp_dir().join("there/is/no/such.wasm");
    let error = Component::load(engine(), &path, limits(), &Interrupt::default()).expect_err("missing");
    assert_eq!(error.kind(), Kind::Component);
    assert!(error.message().starts_with(&format!("component `{}`: it can't be read: ", path.display())), "{error}");
}

#[test]
fn what_is_not_a_component_is_refused_with_what_it_is() {
    assert_eq!(refusal(load_bytes(b"", limits())), "the file is empty");
    assert_eq!(refusal(load_bytes(b"(component)", limits())), "it is not WebAssembly");
    assert_eq!(refusal(load_bytes(b"\0as", limits())), "it is not WebAssembly");
    assert_eq!(refusal(load_bytes(b"\0asm\x0d\0\x02\0", limits())), "it is WebAssembly of a version that this host does not know");
    let error = load_text("(module)", limits()).expect_err("a core module");
    assert!(error.message().ends_with("it is a core WebAssembly module and not a component"), "{error}");
    assert!(error.help_text().is_some_and(|help| help.contains("wasm32-wasip2")));
}

#[test]
fn a_component_that_is_cut_off_or_damaged_is_refused() {
    let whole = wat::parse_str(Guest::default().text()).unwrap();
    for len in [9, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let cause = refusal(load_bytes(&whole[..len], limits()));
        assert!(cause.starts_with("it is broken or cut off: "), "{len} bytes: {cause}");
    }
    let mut damaged = whole.clone();
    damaged[whole.len() / 2..].fill(0xff);
    assert!(refusal(load_bytes(&damaged, limits())).starts_with("it is broken or cut off: "));
}

#[test]
fn a_component_of_another_world_is_told_what_it_lacks() {
    let nothing = refusal(load_text("(component)", limits()));
    assert_eq!(nothing, "it is not an operator: it exports no interface and not `cofferdam:operator/operator@0.1.0`");
    let command = r#"(component (instance $run) (export "wasi:cli/run@0.2.3" (instance $run)))"#;
    assert!(refusal(load_text(command, limits())).contains("it exports `wasi:cli/run@0.2.3` and not"));
}

#[test]
fn patch_versions_link_both_ways_and_others_do_not() {
    let newer = Guest { import_version: "0.1.7", export_version: "0.1.3", ..Guest::default() };
    assert!(newer.load().is_ok());
    let imports = Guest { import_version: "0.2.0", ..Guest::default() };
    let (wanted, offered) = ("`cofferdam:operator/keyed-state@0.2.0`", "`cofferdam:operator/keyed-state@0.1.0`");
    let said = refusal(imports.load());
    assert!(said.starts_with(&format!("it imports what the host does not offer: {wanted} (the host offers {offered}), ")), "{said}");
    let exports = Guest { export_version: "0.2.0", ..Guest::default() };
    assert!(refusal(exports.load()).starts_with("it is not an operator: it exports `cofferdam:operator/operator@0.2.0`"));
    assert!(world::is_compatible("a:b/c@1.4.0", "a:b/c@1.2.9"));
    assert!(!world::is_compatible("a:b/c@1.4.0", "a:b/c@2.4.0"));
    assert!(!world::is_compatible("a:b/c@0.1.0-rc.1", "a:b/c@0.1.0"));
    assert!(!world::is_compatible("a:b/d@0.1.0", "a:b/c@0.1.0"));
}

#[test]
fn imports_that_are_not_offered_are_told_with_what_is_instead() {
    let imports = r#"
        (import "wasi:http/types@0.2.0" (instance)) (import "wasi:random/random@0.3.0" (instance))
        (import "plain" (func)) (import "wasi:clocks/wall-clock@0.2.1" (instance))"#;
    let loaded = Guest { imports, ..Guest::default() }.load();
    assert_eq!(
        refusal(loaded),
        "it imports what the host does not offer: `wasi:http/types@0.2.0` (the host has nothing of that name), \
         `wasi:random/random@0.3.0` (the host offers wasi:random@0.2), `plain` (the host has nothing of that name)"
    );
    let timezone = r#"(import "wasi:clocks/wall-clock@0.2.0" (instance (export "moon-phase" (func))))"#;
    let cause = refusal(Guest { imports: timezone, ..Guest::default() }.load());
    assert!(cause.starts_with("it imports what the host does not offer: "), "{cause}");
}

#[test]
fn functions_of_other_types_are_shown_beside_the_hosts() {
    let text = Guest::default().text();
    let import = text.replacen(r#"(param "port" u32) (param "keys" $emit-keys)"#, r#"(param "port" u64) (param "keys" $emit-keys)"#, 1);
    let import = import.replace("(import \"host\" \"emit\" (func $emit (param i32", "(import \"host\" \"emit\" (func $emit (param i64");
    assert_eq!(
        refusal(load_text(&import, limits())),
        "it imports functions of other types than the host offers: `cofferdam:operator/output@0.1.0` emit: \
         func(port: u64, keys: emit-keys, values: column, timestamps: list<s64>) instead of \
         func(port: u32, keys: emit-keys, values: column, timestamps: list<s64>)"
    );
    let added = text.replace(r#"(export "reject" (func (param"#, r#"(export "retract" (func)) (export "reject" (func (param"#);
    assert!(refusal(load_text(&added, limits())).ends_with(
        "`cofferdam:operator/output@0.1.0` retract: there is no such function in `cofferdam:operator/output@0.1.0`, which the host offers"
    ));
    let missing = text.replace(r#"(export "open" (func $open))"#, "");
    assert!(refusal(load_text(&missing, limits())).ends_with("`cofferdam:operator/operator@0.1.0` open: missing"));
    let export = text.replace(r#"(func $finish (param "keys" $column)"#, r#"(func $finish (param "keys" $column) (param "last" bool)"#);
    let export = export.replace(
        "(param $key-bytes-len i32) (result i32)\n      \n      (call $reset)",
        "(param $key-bytes-len i32) (param i32) (result i32)\n      (call $reset)",
    );
    assert!(refusal(load_text(&export, limits())).contains("finish: func(keys: column, last: bool) -> result<_, string> instead of"));
}

#[test]
fn what_the_host_offers_is_what_the_wit_says() {
    let wit: String = include_str!("../../../../wit/operator.wit").lines().filter(|line| !line.trim().starts_with("///")).collect();
    let wit = wit.split_whitespace().collect::<Vec<_>>().join(" ").replace(", }", " }");
    for (name, spelt) in signature::NAMED {
        let (kind, rest) = spelt.split_once(' ').unwrap();
        let declared = if spelt.starts_with("list") { format!("type {name} = {spelt};") } else { format!("{kind} {name} {rest}") };
        assert!(wit.contains(&declared), "{declared}");
    }
    let mut functions = wit.matches(": func(").count();
    for interface in world::OFFERED.iter().chain([&world::OPERATOR]).chain(&world::HOOKS) {
        let (package, rest) = interface.name.split_once('/').unwrap();
        let (name, version) = rest.split_once('@').unwrap();
        assert!(wit.contains(&format!("package {package}@{version};")) && wit.contains(&format!("interface {name} {{")), "{name}");
        for (function, ty) in interface.functions {
            assert!(wit.contains(&format!("{function}: {ty};")), "{function}: {ty}");
            functions -= 1;
        }
    }
    assert_eq!(functions, 0, "functions of the WIT that the host does not know");
}

#[test]
fn a_cache_keeps_what_was_compiled_and_does_without_where_it_can_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.wasm");
    std::fs::write(&file, wat::parse_str(processing("").text()).unwrap()).unwrap();
    let cache = dir.path().join("deep/down");
    for _ in 0..2 {
        let engine = crate::wasm::Engine::new(Some(cache.clone())).unwrap();
        let component = Component::load(&engine, &file, limits(), &Interrupt::default()).unwrap();
        let kept: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept, [cache.join(format!("{}.compiled", component.digest()))]);
    }
    for unusable in [file.clone(), file.join("below")] {
        let engine = crate::wasm::Engine::new(Some(unusable)).unwrap();
        assert!(Component::load(&engine, &file, limits(), &Interrupt::default()).is_ok());
    }
}

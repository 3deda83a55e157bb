//! [`Component`]: a Wasm file that was compiled, checked against the host and asked to describe itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{self as wasm, ComponentExportIndex, InstancePre};

use super::engine::Engine;
use super::guest::Guest;
use super::limits::Interrupt;
use super::{describe, world};
use crate::error::{Error, Kind, Result};
use crate::plan::{Descriptor, Limits};

/// A component that can be instantiated.
pub struct Component {
    engine: Engine,
    pre: InstancePre<Guest>,
    exported: Exported,
    descriptor: Arc<Descriptor>,
    digest: String,
    path: PathBuf,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Where a component's functions are.
pub(super) struct Exported {
    pub(super) describe: ComponentExportIndex,
    pub(super) open: ComponentExportIndex,
    pub(super) process: ComponentExportIndex,
    pub(super) finish: Option<ComponentExportIndex>,
    pub(super) snapshot: Option<ComponentExportIndex>,
    pub(super) checkpoint_complete: Option<ComponentExportIndex>,
    pub(super) checkpoint_aborted: Option<ComponentExportIndex>,
    pub(super) close: Option<ComponentExportIndex>,
    pub(super) migrate: Option<ComponentExportIndex>,
}

impl Component {
    /// Reads and compiles a component, compares its type with what the host offers, and has it describe itself within `limits`, if that is
    /// not interrupted.
    ///
    /// # Errors
    /// Kind `Component`, naming the file: it is missing or broken, a core module, a component of another world, imports what the host
    /// does not offer, or describes an operator that can't be.
    pub fn load(engine: &Engine, path: &Path, limits: Limits, interrupt: &Interrupt) -> Result<Component> {
        let bytes = std::fs::read(path).map_err(|error| {
            let help = "the path is relative to the job file; build the component first if it is one of your own";
            let message = format!("component `{}`: it can't be read: {error}", path.display());
            Error::new(Kind::Component, message).help(help)
        })?;
        let named = |error: Error| error.context(format!("component `{}`", path.display()));
        Component::new(engine, path, &bytes, limits, interrupt).map_err(named)
    }

    /// As [`Component::load`], of a file that has been read.
    ///
    /// # Errors
    /// As [`Component::load`], but without a name: only the caller knows by which one the component is known to people.
    pub fn new(engine: &Engine, path: &Path, bytes: &[u8], limits: Limits, interrupt: &Interrupt) -> Result<Component> {
        check_header(bytes)?;
        let digest = blake3::hash(bytes).to_hex().to_string();
        let compiled = engine
            .compile(bytes, &digest)
            .map_err(|error| Error::new(Kind::Component, format!("it is broken or cut off: {}", first_line(&error))).help(HOW_TO_BUILD))?;
        let ty = compiled.component_type();
        world::check(&ty, engine.wasmtime())?;
        // What `world::check` can't see is a function of WASI that this host's version does not have.
        let pre = engine.linker().instantiate_pre(&compiled).map_err(|error| {
            Error::new(Kind::Component, format!("it imports what the host does not offer: {}", first_line(&error)))
                .help("the host offers WASI 0.2.12 without wasi:http; build the component for that version")
        })?;
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(String::from).collect::<Vec<_>>();
        let imports = names(&mut ty.imports(engine.wasmtime()).map(|(name, _)| name));
        let exports = names(&mut ty.exports(engine.wasmtime()).map(|(name, _)| name));
        let exported = Exported::find(&compiled, &exports)
            .ok_or_else(|| Error::new(Kind::Internal, "an export that was checked can't be found in the compiled component"))?;
        let descriptor = Arc::new(describe::describe(engine, &pre, &exported, path, limits, interrupt)?);
        Ok(Component { engine: engine.clone(), pre, exported, descriptor, digest, path: path.into(), imports, exports })
    }

    /// The bytes of the component with this digest, whose file this is.
    ///
    /// # Errors
    /// Kind `Component` if it can't be read, or is another one.
    pub fn read(path: &Path, digest: &str) -> Result<Vec<u8>> {
        let wrong = |what: String| Error::new(Kind::Component, format!("component `{}`: {what}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("it can't be read: {error}")))?;
        if blake3::hash(&bytes).to_hex().as_str() != digest {
            return Err(wrong(format!("the file has another content than that with the digest {digest}")));
        }
        Ok(bytes)
    }

    /// What it says about itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// BLAKE3 of its file, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The interfaces that it imports, in its order.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// The interfaces and functions that it exports, in its order.
    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    /// What it was compiled by.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn shared_descriptor(&self) -> &Arc<Descriptor> {
        &self.descriptor
    }

    pub(super) fn exported(&self) -> &Exported {
        &self.exported
    }

    pub(super) fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<wasm::Instance> {
        self.pre.instantiate(store)
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component").field("path", &self.path).field("digest", &self.digest).finish_non_exhaustive()
    }
}

const HOW_TO_BUILD: &str = "build operators with `cargo build --target wasm32-wasip2`";

/// Tells a component from everything else by its first eight bytes.
fn check_header(bytes: &[u8]) -> Result<()> {
    let broken = |what: &str| Err(Error::new(Kind::Component, what).help(HOW_TO_BUILD));
    match bytes {
        [] => broken("the file is empty"),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => broken("it is a core WebAssembly module and not a component"),
        [0, b'a', b's', b'm', ..] => broken("it is WebAssembly of a version that this host does not know"),
        _ => broken("it is not WebAssembly"),
    }
}

fn first_line(error: &wasmtime::Error) -> String {
    let text = error.root_cause().to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

impl Exported {
    fn find(component: &wasm::Component, exports: &[String]) -> Option<Exported> {
        let interface = |wanted: &world::Interface| {
            let name = exports.iter().find(|name| world::is_compatible(name, wanted.name))?;
            component.get_export_index(None, name.as_str())
        };
        let operator = interface(&world::OPERATOR)?;
        let function = |name| component.get_export_index(Some(&operator), name);
        let hook = |wanted, name| interface(wanted).and_then(|hook| component.get_export_index(Some(&hook), name));
        Some(Exported {
            describe: function("describe")?,
            open: function("open")?,
            process: function("process")?,
            finish: hook(&world::FINISH_HOOK, "finish"),
            snapshot: hook(&world::SNAPSHOT_HOOK, "snapshot"),
            checkpoint_complete: hook(&world::CHECKPOINT_HOOKS, "checkpoint-complete"),
            checkpoint_aborted: hook(&world::CHECKPOINT_ABORTED_HOOK, "checkpoint-aborted"),
            close: hook(&world::CLOSE_HOOK, "close"),
            migrate: hook(&world::MIGRATION, "migrate"),
        })
    }
}

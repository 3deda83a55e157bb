//! Looking into a file: a component, or a file of a checkpoint.

use std::path::Path;

use serde::Serialize;

use crate::checkpoint::inspect::Description;
use crate::checkpoint::store;
use crate::error::Result;
use crate::plan::{Descriptor, Limits, Location};
use crate::wasm::{Component, Engine, Interrupt};

/// What a file is.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Inspection {
    /// A component.
    Component(Box<ComponentInspection>),
    /// A claim, a manifest or a state file.
    Checkpoint(Box<Description>),
}

/// What is to be known about a component.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComponentInspection {
    /// Always "component".
    pub file: &'static str,
    /// BLAKE3 of the file.
    pub digest: String,
    /// Its size.
    pub bytes: u64,
    /// What it says about itself.
    pub descriptor: Descriptor,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// The interfaces and functions that it exports.
    pub exports: Vec<String>,
}

/// Says what a file is. A local one that begins like WebAssembly, or ends in `.wasm`, is taken for a component.
///
/// # Errors
/// Kind `Component`, `Checkpoint` or `Storage`: why it is not what it seems.
pub fn inspect(file: &Location) -> Result<Inspection> {
    match file {
        Location::Path(path) if path.extension().is_some_and(|extension| extension == "wasm") || begins_like_wasm(path) => component(path),
        _ => Ok(Inspection::Checkpoint(Box::new(super::block_on(store::inspect(file))?))),
    }
}

fn component(path: &Path) -> Result<Inspection> {
    let component = Component::load(&Engine::new(super::cache_dir())?, path, Limits::default(), &Interrupt::default())?;
    let bytes = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    Ok(Inspection::Component(Box::new(ComponentInspection::of(&component, bytes))))
}

impl ComponentInspection {
    /// Of a component whose file has so many bytes.
    pub fn of(component: &Component, bytes: u64) -> Self {
        ComponentInspection {
            file: "component",
            digest: component.digest().into(),
            bytes,
            descriptor: component.descriptor().clone(),
            imports: component.imports().to_vec(),
            exports: component.exports().to_vec(),
        }
    }
}

fn begins_like_wasm(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\0asm"
}

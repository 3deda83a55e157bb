//! Components that a host keeps, asked for and pushed from outside.

use std::collections::BTreeMap;
use std::path::Path;

use indicatif::HumanBytes;

use super::args::{ComponentCommand, Output};
use super::client::{Client, part};
use super::text::table;
use super::{answer, console, json};
use crate::api::Components;
use crate::error::{Error, Kind, Result};
use crate::plan::{ComponentRef, NodeKind, Plan};
use crate::service::Kept;

pub(super) fn run(command: &ComponentCommand, output: Output) -> Result<u8> {
    match command {
        ComponentCommand::Push { file, name, host } => {
            let kept = push(&Client::new(host)?, file, read(file)?, name.as_deref())?;
            answer(&kept, output)
        }
        ComponentCommand::List(host) => {
            let components: Components = Client::new(host)?.get("/v1/components")?;
            match output {
                Output::Json => console::print(&json(&components)?)?,
                Output::Text if components.components.is_empty() => console::print("the host has no components")?,
                Output::Text => console::print(&overview(&components.components))?,
            }
            Ok(0)
        }
        ComponentCommand::Inspect(args) => {
            let details: serde_json::Value = Client::new(&args.host)?.get(&path(&args.component))?;
            answer(&details, output)
        }
        ComponentCommand::Rm(args) => {
            Client::new(&args.host)?.delete(&path(&args.component))?;
            answer(&serde_json::json!({ "removed": args.component }), output)
        }
    }
}

fn overview(components: &[Kept]) -> String {
    let row = |kept: &Kept| {
        let named = format!("{}@{}", kept.name, kept.version);
        vec![named, HumanBytes(kept.bytes).to_string(), kept.pushed.clone(), kept.digest.clone()]
    };
    table(&["component", "size", "pushed", "digest"], components.iter().map(row).collect(), &[1])
}

/// Pushes the components that a job file names by their files, and tells their digests by operator.
pub(super) fn push_all(client: &Client, plan: &Plan) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    for node in &plan.nodes {
        let NodeKind::Operator(settings) = &node.kind else { continue };
        let ComponentRef::File(file) = &settings.component else { continue };
        let pushed = push_file(client, file).map_err(|error| error.context(format!("operator `{}`", node.uid)))?;
        digests.insert(node.uid.clone(), pushed.digest);
    }
    Ok(digests)
}

/// Pushes the component in a file.
pub(super) fn push_file(client: &Client, file: &Path) -> Result<Kept> {
    push(client, file, read(file)?, None)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        let help = "give the path of its file; in a job file it is relative to that";
        Error::new(Kind::Component, format!("component `{}`: it can't be read: {error}", file.display())).help(help)
    })
}

/// Pushes a component, whose content does not go over the wire if the host has it.
fn push(client: &Client, file: &Path, content: Vec<u8>, name: Option<&str>) -> Result<Kept> {
    let digest = blake3::hash(&content).to_hex();
    let path = path(&digest);
    let components: Components = client.get("/v1/components")?;
    let known = components.components.into_iter().find(|kept| kept.digest == digest.as_str() && name.is_none_or(|name| name == kept.name));
    match known {
        Some(kept) => Ok(kept),
        None => {
            let query: Vec<(&str, &str)> = name.iter().map(|name| ("name", *name)).collect();
            client.put(&path, &query, content).map_err(|error| error.context(format!("component `{}`", file.display())))
        }
    }
}

fn path(component: &str) -> String {
    format!("/v1/components/{}", part(component))
}

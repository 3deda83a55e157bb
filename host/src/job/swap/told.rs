//! What was checked of a component that fits, told in a line for each check.

use super::{CheckReport, StateFate, StateReport, SwapRequest, WayBack};
use crate::plan::{Descriptor, NodeKind, OperatorSettings, Plan, SinkSettings};
use crate::wasm::Component;

/// What was checked, in the order in which it was: all of it holds.
pub(super) fn told(
    plan: &Plan,
    settings: &OperatorSettings,
    component: &Component,
    states: &[StateReport],
    request: &SwapRequest,
) -> Vec<CheckReport> {
    let checks = [
        ("world", world(component)),
        ("ports", ports(component.descriptor())),
        ("limits", limits(settings)),
        ("grants", grants(settings)),
        ("states", fates(states)),
        ("way-back", way_back(plan, request)),
    ];
    checks.map(|(check, found)| CheckReport { check: check.into(), found }).into()
}

fn world(component: &Component) -> String {
    let ours = |names: &[String]| {
        let ours: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.starts_with("cofferdam:")).collect();
        ours.join(", ")
    };
    format!(
        "the host offers all that it imports: {}; it exports what an operator has to: {}",
        ours(component.imports()),
        ours(component.exports())
    )
}

fn ports(descriptor: &Descriptor) -> String {
    let names = |names: Vec<&str>| if names.is_empty() { "none".into() } else { names.join(", ") };
    let inputs = names(descriptor.inputs.iter().map(|port| port.name.as_str()).collect());
    let outputs = names(descriptor.outputs.iter().map(|port| port.name.as_str()).collect());
    format!("the same as now, and what they carry fits the nodes around: inputs {inputs}; outputs {outputs}")
}

fn limits(settings: &OperatorSettings) -> String {
    let time = humantime::format_duration(settings.limits.time);
    format!("an instance opens within {} bytes of memory and {time}", settings.limits.memory)
}

fn grants(settings: &OperatorSettings) -> String {
    let names: Vec<&str> = settings.grants.environment.iter().map(|variable| variable.name.as_str()).collect();
    match names.is_empty() {
        true => "an instance opens with none: the job file has none for the operator".into(),
        false => format!("an instance opens with the variables {}", names.join(", ")),
    }
}

fn fates(states: &[StateReport]) -> String {
    let fate = |state: &StateReport| match (state.fate, state.from) {
        (StateFate::Same, _) => format!("{} stays as it is", state.state),
        (StateFate::Migrated, Some(from)) => format!("{} is migrated from version {from} to {}", state.state, state.version),
        (StateFate::Migrated | StateFate::New, _) => format!("{} is new, and begins empty", state.state),
    };
    if states.is_empty() { "none".into() } else { states.iter().map(fate).collect::<Vec<_>>().join("; ") }
}

fn way_back(plan: &Plan, request: &SwapRequest) -> String {
    if request.probation.is_zero() {
        return "none, since there is no probation".into();
    }
    match request.way_back {
        WayBack::Forward => "the old component can go on with the state as the new one leaves it".into(),
        WayBack::Rewind => {
            let at_once = plan.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Sink(SinkSettings::Stdout)));
            let at_once: Vec<String> = at_once.map(|node| format!("`{}`", node.uid)).collect();
            let but = match at_once.is_empty() {
                true => String::new(),
                false => {
                    format!(" but by {}, which writes to standard output as records come: its lines may come again", at_once.join(", "))
                }
            };
            format!("to the checkpoint before the swap; nothing is published during the probation{but}")
        }
    }
}

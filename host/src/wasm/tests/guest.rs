//! Guests for tests, as text: an operator whose functions are filled in, and what a job would lend to it.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::error::Result;
use crate::plan::{Limits, OnError};
use crate::record::{AttemptId, Batch, Outbox, Shape, hash_key};
use crate::state::SubtaskState;
use crate::wasm::{Component, Context, Engine, Failure, GuestLog, Instance, Interrupt, Unopened};

/// One engine for all tests, as in a process of the host.
pub(super) fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(None).unwrap());
    &ENGINE
}

/// An input or output port, as a guest describes it: name, partitioning, schema of keys and of values.
pub(super) type Port = [&'static str; 4];

/// What an operator says about itself.
#[derive(Clone)]
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) inputs: Vec<Port>,
    /// What more is told about the inputs that stand first.
    pub(super) inputs_more: Vec<Vec<(&'static str, &'static str)>>,
    pub(super) outputs: Vec<Port>,
    /// Name, kind, schema and version.
    pub(super) states: Vec<(&'static str, &'static str, &'static str, u32)>,
    /// What more is told about the states that stand first.
    pub(super) more: Vec<Vec<(&'static str, &'static str)>>,
}

impl Default for Described {
    fn default() -> Self {
        Described {
            name: "test",
            inputs: vec![["words", "keyed", "text", "text"]],
            inputs_more: vec![],
            outputs: vec![["counts", "keyed", "text", "bytes"], ["lines", "any", "", "text"]],
            states: vec![("count", "value", "bytes", 1), ("seen", "list", "bytes", 1), ("per", "map", "bytes", 1)],
            more: vec![vec![], vec![], vec![("field-schema", "text")]],
        }
    }
}

/// An operator in text; each field is what its `{{name}}` in operator.wat stands for.
#[derive(Clone)]
pub(super) struct Guest {
    pub(super) described: Described,
    pub(super) describe: &'static str,
    pub(super) open: &'static str,
    pub(super) process: String,
    pub(super) finish: &'static str,
    /// Exports of further hooks, whose functions are in `core`.
    pub(super) hooks: &'static str,
    pub(super) core: &'static str,
    pub(super) imports: &'static str,
    pub(super) host: &'static str,
    pub(super) import_version: &'static str,
    pub(super) export_version: &'static str,
    /// What stands at address 8192.
    pub(super) data: Vec<u8>,
}

impl Default for Guest {
    fn default() -> Self {
        Guest {
            described: Described::default(),
            describe: "",
            open: "",
            process: String::new(),
            finish: "",
            hooks: "",
            core: "",
            imports: "",
            host: "",
            import_version: "0.1.0",
            export_version: "0.1.0",
            data: Vec::new(),
        }
    }
}

/// A guest whose `process` is `body`.
pub(super) fn processing(body: impl Into<String>) -> Guest {
    Guest { process: body.into(), ..Guest::default() }
}

impl Guest {
    /// Its text.
    pub(super) fn text(&self) -> String {
        let (memory, descriptor) = lay_out(&self.described);
        let data = format!("(data (i32.const 1024) \"{}\") (data (i32.const 8192) \"{}\")", escape(&memory), escape(&self.data));
        include_str!("operator.wat")
            .replace("{{describe}}", self.describe)
            .replace("{{open}}", self.open)
            .replace("{{process}}", &self.process)
            .replace("{{finish}}", self.finish)
            .replace("{{hooks}}", self.hooks)
            .replace("{{core}}", self.core)
            .replace("{{imports}}", self.imports)
            .replace("{{host}}", self.host)
            .replace("{{import-version}}", self.import_version)
            .replace("{{export-version}}", self.export_version)
            .replace("{{descriptor}}", &descriptor.to_string())
            .replace("{{data}}", &data)
    }

    /// Loads it.
    pub(super) fn load(&self) -> Result<Component> {
        load_text(&self.text(), limits())
    }

    /// Loads and opens it.
    pub(super) fn run(&self) -> Instance {
        open(&self.load().unwrap(), limits()).map_err(|unopened| unopened.failure).unwrap()
    }
}

/// Loads a component given as text.
pub(super) fn load_text(text: &str, limits: Limits) -> Result<Component> {
    load_bytes(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}")), limits)
}

/// Loads a file with the given content, and takes the file's path out of the error.
pub(super) fn load_bytes(bytes: &[u8], limits: Limits) -> Result<Component> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.wasm");
    std::fs::write(&path, bytes).unwrap();
    Component::load(engine(), &path, limits, &Interrupt::default())
}

/// Why a component can't be loaded.
pub(super) fn refusal(loaded: Result<Component>) -> String {
    let error = loaded.expect_err("not to be loaded");
    assert_eq!(error.kind(), crate::error::Kind::Component);
    assert!(!error.message().contains('\n'), "one line: {error}");
    let (_, cause) = error.message().split_once("test.wasm`: ").unwrap_or_else(|| panic!("{error} does not name the file"));
    cause.to_owned()
}

/// Limits that a failing test reaches soon and a passing one never.
pub(super) fn limits() -> Limits {
    Limits { memory: 4 << 20, time: Duration::from_secs(60), ..Limits::default() }
}

/// Limits that a guest without end reaches after a while; long enough that a slow machine opens it in time.
pub(super) fn soon() -> Limits {
    Limits { time: Duration::from_millis(300), ..limits() }
}

/// Opens a component with empty state.
pub(super) fn open(component: &Component, limits: Limits) -> std::result::Result<Instance, Box<Unopened>> {
    open_in(&context(), component, limits)
}

/// The same at some other place.
pub(super) fn open_in(context: &Context, component: &Component, limits: Limits) -> std::result::Result<Instance, Box<Unopened>> {
    let state = SubtaskState::new(&component.descriptor().states, 128);
    let plain = Shape { plain: true, keyed: None };
    let outputs = component.descriptor().outputs.iter().map(|_| Outbox::new(plain)).collect();
    Instance::open(component, context, limits, OnError::Fail, state, outputs)
}

/// Somewhere in some job.
pub(super) fn context() -> Context {
    Context {
        job: "job".into(),
        operator: "test".into(),
        subtask: 0,
        parallelism: 1,
        max_parallelism: 128,
        attempt: AttemptId { run: 1, attempt: 1 },
        restored_from: None,
        config: "{}".into(),
        environment: [].into(),
        log: GuestLog::new("test", 0, 100),
        metrics: Arc::default(),
        interrupt: Interrupt::default(),
    }
}

/// A batch in which every word is a key and a value.
pub(super) fn words(words: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for word in words {
        let known = batch.keys.iter().position(|key| key == word.as_bytes());
        let key = known.unwrap_or_else(|| {
            batch.keys.push(word.as_bytes());
            batch.hashes.push(hash_key(word.as_bytes()));
            batch.keys.len() - 1
        });
        batch.key_of.push(u32::try_from(key).unwrap());
        batch.values.push(word.as_bytes());
    }
    batch
}

/// How a guest fails on a batch of two records, which it must leave whole.
pub(super) fn failure(guest: &Guest) -> Failure {
    let mut instance = guest.run();
    let mut batch = words(&["a", "b"]);
    let failure = instance.process(0, &mut batch).expect_err("a failure");
    assert_eq!(batch, words(&["a", "b"]));
    assert_eq!(instance.is_usable(), !failure.cause.is_fatal());
    assert!(!failure.message.contains('\n'), "one line: {failure}");
    failure
}

/// The values that an instance has emitted on a port.
pub(super) fn emitted(instance: &mut Instance, port: usize) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    instance.outputs()[port].drain(|_, batch| values.extend(batch.values.iter().map(<[u8]>::to_vec)));
    values
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:02x}").unwrap();
        text
    })
}

/// A description as it lies in memory from address 1024 on, and its own address.
fn lay_out(described: &Described) -> (Vec<u8>, usize) {
    fn place(memory: &mut Vec<u8>, bytes: &[u8]) -> u32 {
        memory.resize(memory.len().next_multiple_of(4), 0);
        memory.extend_from_slice(bytes);
        u32::try_from(1024 + memory.len() - bytes.len()).unwrap()
    }
    fn list(memory: &mut Vec<u8>, bytes: &[u8], len: usize) -> [u32; 2] {
        [place(memory, bytes), u32::try_from(len).unwrap()]
    }
    let string = |memory: &mut Vec<u8>, text: &str| list(memory, text.as_bytes(), text.len());
    let flat = |words: Vec<[u32; 2]>| words.into_iter().flatten().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let mut memory = Vec::new();
    let told = |memory: &mut Vec<u8>, more: Option<&Vec<(&str, &str)>>| {
        let more = more.map_or(&[][..], Vec::as_slice);
        let facts: Vec<_> = more.iter().flat_map(|&(name, value)| [name, value]).map(|text| string(memory, text)).collect();
        list(memory, &flat(facts), more.len())
    };
    let ports = |memory: &mut Vec<u8>, ports: &[Port], more: &[Vec<(&str, &str)>]| {
        let mut fields = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            fields.extend(port.map(|text| string(memory, text)));
            fields.push(told(memory, more.get(index)));
        }
        list(memory, &flat(fields), ports.len())
    };
    let inputs = ports(&mut memory, &described.inputs, &described.inputs_more);
    let outputs = ports(&mut memory, &described.outputs, &[]);
    let mut states = Vec::new();
    for (index, (name, kind, schema, version)) in described.states.iter().enumerate() {
        states.extend(flat([name, kind, schema].map(|text| string(&mut memory, text)).to_vec()));
        let [at, len] = told(&mut memory, described.more.get(index));
        states.extend([*version, at, len].into_iter().flat_map(u32::to_le_bytes));
    }
    let states = list(&mut memory, &states, described.states.len());
    let (name, version) = (string(&mut memory, described.name), string(&mut memory, "1.0"));
    let record = flat(vec![name, version, inputs, outputs, states, [0, 0]]);
    let at = place(&mut memory, &record);
    (memory, at as usize)
}

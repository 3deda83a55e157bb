//! Small guests in text against the real engine: what a component may be, what it may say about itself, and what becomes of calls
//! that go wrong.

mod broadcast;
mod calls;
mod description;
mod guest;
mod hooks;
mod loading;
mod long;
mod maps;
mod metrics;
mod migration;
mod waiting;

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
#[event(version = 1, crate = journal_core)]
struct Opened;

#[derive(serde::Serialize, serde::Deserialize, journal_derive::Event)]
struct Closed;

fn main() {}

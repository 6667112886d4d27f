use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", manifest = "b")]
struct InOne;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", version = 1)]
#[event(version = 1)]
struct InTwo;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", crate = journal_core, crate = journal_core)]
struct Crate;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
enum OnVariant {
    #[event(tags("a"))]
    #[event(tags("b"))]
    A,
}

fn main() {}

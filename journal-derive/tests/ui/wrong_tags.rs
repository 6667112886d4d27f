use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags = "a")]
struct Assigned;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags(a))]
struct Bare;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags())]
struct Nothing;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags("a", ""))]
struct Empty;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", tags("a", "b", "a"))]
struct Twice;

fn main() {}

use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
struct OfType<T>(T);

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a")]
struct OfLifetime<'a>(&'a str);

fn main() {}

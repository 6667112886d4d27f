use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", version = "1")]
struct Text;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", version = 0)]
struct Zero;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", version = -1)]
struct Negative;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "a", version = 4294967296)]
struct TooLarge;

fn main() {}

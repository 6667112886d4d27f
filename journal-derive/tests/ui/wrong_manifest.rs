use journal_derive::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "")]
struct Empty;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = " ")]
struct Blank;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = 5)]
struct Number;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest)]
struct Nothing;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest("opened"))]
struct Parentheses;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "actor-journal/opened")]
struct Reserved;

fn main() {}
